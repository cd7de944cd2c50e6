// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sluice/operations/program.hpp>

#include <cstddef>
#include <string>
#include <vector>

namespace sluice {

/// A step of the program of a model, as a program of its own.
struct model_step {
  std::string name{};                  ///< of the node that it is a part of
  std::string operation{};             ///< "conv2d"
  program what{};                      ///< one step, with its constants
  std::vector<std::size_t> inputs{};   ///< the values that it reads, in the order of its inputs
  std::vector<std::size_t> outputs{};  ///< the values that it makes, in the order of its outputs
};

/// The program of a model as programs of one step each. See `model::steps_for`.
///
/// Values have numbers. Those of the inputs come first, in order.
struct model_steps {
  std::vector<std::string> inputs{};   ///< inputs of the model that are not bound by value
  std::vector<model_step> steps{};     ///< each after those whose values it reads
  std::vector<std::size_t> outputs{};  ///< the values that are the outputs of the model
};

}  // namespace sluice
