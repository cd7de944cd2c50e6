// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sluice/models/model.hpp>

#include <map>
#include <string>
#include <vector>

namespace sluice {

/// A model of a chain. The maps connect its inputs and outputs with values of the chain.
struct chain_step {
  std::string name{};  ///< in errors; no two steps have the same one
  model what;          ///< may be a chain itself
  /// By input of the model: the value that it reads. Every input has one.
  std::map<std::string, std::string> inputs{};
  /// By output of the model: the value that it makes. Other outputs are not used.
  std::map<std::string, std::string> outputs{};
};

/// Several models that are computed as one. See `model::chain`.
///
///     const auto reader = model::chain({.name = "reader",
///                                       .inputs = {"page"},
///                                       .steps = {{.name = "detector",
///                                                  .what = model::open("detector.onnx"),
///                                                  .inputs = {{"image", "page"}},
///                                                  .outputs = {{"crop", "line"}}},
///                                                 {.name = "recogniser",
///                                                  .what = model::open("recogniser.onnx"),
///                                                  .inputs = {{"x", "line"}},
///                                                  .outputs = {{"y", "text"}}}},
///                                       .outputs = {"text"}});
///
/// The order of the steps does not matter. Each value has one producer: it is an input of the
/// chain, or one step makes it. Any number of steps may read it. An output of the chain is a value
/// that a step makes. An input of the chain has the type and shape that the steps declare that read
/// it. The symbols in shapes are those of the steps, with the name of the step and a period in
/// front.
///
/// At another precision than that of the files, the values between the steps still have their own
/// types.
struct model_chain {
  std::string name = "chain";          ///< in errors
  std::vector<std::string> inputs{};   ///< names of values, in order
  std::vector<chain_step> steps{};     ///< at least one
  std::vector<std::string> outputs{};  ///< likewise
};

}  // namespace sluice
