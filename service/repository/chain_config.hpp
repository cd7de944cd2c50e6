// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace sluice::service {

class key_reader;

/// A step of a chain: a model of the repository. The maps connect its inputs and outputs with
/// tensors of the chain.
struct config_step {
  std::string model{};
  std::optional<std::uint64_t> version{};        ///< nothing: the highest
  std::map<std::string, std::string> inputs{};   ///< by input of the model
  std::map<std::string, std::string> outputs{};  ///< by output of the model

  friend bool operator==(const config_step&, const config_step&) = default;
};

/// The most steps of a chain.
inline constexpr std::size_t max_chain_steps = 64;

/// The steps of a chain, which the key `ensemble_scheduling` of a config states; none without it.
/// How they are connected is checked when the models are loaded.
/// @throws config_error if a key is unknown, or a value has another type or range
[[nodiscard]] std::vector<config_step> read_chain(key_reader& config);

}  // namespace sluice::service
