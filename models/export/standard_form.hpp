// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "models/messages.hpp"

#include <sluice/operations/host_tensor.hpp>
#include <sluice/operations/program_step.hpp>
#include <sluice/operations/scalar.hpp>
#include <sluice/operations/tensor_spec.hpp>

#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace sluice::detail {
struct program_view;
}  // namespace sluice::detail

namespace sluice::models {

/// Adds a constant that is an input of an operator of ONNX, and returns its name in the file.
using parameter_function =
    std::function<std::string(const char* name, const host_tensor& elements)>;

/// A step that is written.
struct step_description {
  const sluice::detail::program_step& operation;
  std::span<const scalar> scalars{};  ///< the numbers for its scalars of a program
  std::vector<std::string> inputs{};  ///< names of the operands; empty if not given
  /// Properties of the operands and of the results; nothing if they are not known.
  ///@{
  std::vector<std::optional<tensor_spec>> specs{};
  std::vector<std::optional<tensor_spec>> results{};
  ///@}
  parameter_function add_parameter{};
};
/// The value that is viewed.
struct view_description {
  std::optional<tensor_spec> spec{};  ///< its properties; nothing if they are not known
  parameter_function add_parameter{};
};

/// Writes a step as an operator of ONNX whose import adds the same step: the name of the operator,
/// the inputs and the attributes. Returns false, and writes nothing, if there is none.
[[nodiscard]] bool write_standard_step(const step_description& step, onnx::NodeProto& message);
/// Likewise of a view, whose input the node has.
[[nodiscard]] bool write_standard_view(const sluice::detail::program_view& view,
                                       const view_description& viewed, onnx::NodeProto& message);

}  // namespace sluice::models
