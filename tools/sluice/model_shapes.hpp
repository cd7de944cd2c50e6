// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "tools/sluice/model_inputs.hpp"

#include <sluice/models/model.hpp>

#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace sluice::cli {

/// What the options of a command state about the inputs of a model.
struct stated_shapes {
  std::vector<named_text> shapes{};      ///< of --shape: "1,3,224,224", by input
  std::vector<named_text> dimensions{};  ///< of --dimension: "4", by symbol
  named_tensors tensors{};               ///< of --input
};

/// The properties of the inputs of a model.
struct input_shapes {
  named_specs specs{};
  /// The symbols, and the extents without a name such as "x[2]", that are 1 because nothing states
  /// them.
  std::vector<std::string> assumed{};
  /// Why an input has no properties; empty if all have.
  std::string problem{};
};

/// The symbols of the inputs of a model, each once.
[[nodiscard]] std::vector<std::string> symbols_of(const model& network);

/// The properties of the inputs of a model. A symbol has the extent that an option states, or that
/// the shape of another input has. Extents that nothing states are 1.
/// @throws error `invalid_argument`, naming the option, if a value is no shape or no extent, or two
/// contradict each other
[[nodiscard]] input_shapes shapes_of(const model& network, const stated_shapes& stated);

}  // namespace sluice::cli
