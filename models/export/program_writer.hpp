// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "models/messages.hpp"

#include <sluice/models/write_model.hpp>
#include <sluice/operations/host_tensor.hpp>
#include <sluice/operations/program.hpp>
#include <sluice/runtime/tensor.hpp>

#include <vector>

namespace sluice::models {

/// A constant that a file has: an initializer without its elements.
struct written_constant {
  onnx::TensorProto header{};
  host_tensor on_host{};  ///< the elements, or
  tensor on_device{};     ///< where they are
};

/// A program as a message, whose graph has no initializers, and its constants.
struct written_program {
  onnx::ModelProto message{};
  std::vector<written_constant> constants{};
};

/// @throws error as `write_model`
[[nodiscard]] written_program describe_program(const program& program,
                                               const model_write_options& options);

}  // namespace sluice::models
