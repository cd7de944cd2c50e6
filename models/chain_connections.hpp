// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sluice/models/model_chain.hpp>
#include <sluice/operations/model_source.hpp>

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

namespace sluice::models {

/// A step of a chain whose values have numbers.
struct connected_step {
  std::size_t step = 0;                               ///< its place in the description
  std::vector<std::size_t> inputs{};                  ///< values, by input of the model
  std::vector<std::optional<std::size_t>> outputs{};  ///< likewise; nothing: not used
};

/// The values of a chain, by number. Its inputs come first, in order.
struct chain_connections {
  std::size_t value_count = 0;
  std::vector<connected_step> steps{};  ///< each after those whose values it reads
  std::vector<std::size_t> outputs{};   ///< the values that are the outputs of the chain
  std::vector<model_value> declared_inputs{};
  std::vector<model_value> declared_outputs{};
};

/// Connects the steps of a chain.
/// @throws error as `model::chain`
[[nodiscard]] chain_connections connect(const model_chain& description);

/// "step 'detector': ".
[[nodiscard]] std::string label_of(const chain_step& step);

}  // namespace sluice::models
