// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "models/node.hpp"
#include "models/value.hpp"

#include <cstdint>
#include <span>
#include <string_view>

namespace sluice::models {

/// Whether a node whose inputs are all known is computed while the program is made.
enum class folding : std::uint8_t {
  allowed,
  never,  ///< its results are random, or it has graphs of its own
};

/// How the nodes of an operator become steps.
struct operator_entry {
  std::string_view name{};                   ///< name of the operator in ONNX
  results (*import)(const node&) = nullptr;  ///< adds the steps and returns the results
  std::int64_t since = 1;  ///< the first version of the operator set for which it is right
  models::folding folding = models::folding::allowed;  ///< whether it is folded
};

/// The operators of a family.
///@{
[[nodiscard]] std::span<const operator_entry> activation_operators();
[[nodiscard]] std::span<const operator_entry> attention_operators();
[[nodiscard]] std::span<const operator_entry> blas_operators();
[[nodiscard]] std::span<const operator_entry> constant_operators();
[[nodiscard]] std::span<const operator_entry> control_flow_operators();
[[nodiscard]] std::span<const operator_entry> convolution_operators();
[[nodiscard]] std::span<const operator_entry> deformable_operators();
[[nodiscard]] std::span<const operator_entry> elementwise_operators();
[[nodiscard]] std::span<const operator_entry> indexing_operators();
[[nodiscard]] std::span<const operator_entry> movement_operators();
[[nodiscard]] std::span<const operator_entry> normalization_operators();
[[nodiscard]] std::span<const operator_entry> pooling_operators();
[[nodiscard]] std::span<const operator_entry> quantization_operators();
[[nodiscard]] std::span<const operator_entry> recurrent_operators();
[[nodiscard]] std::span<const operator_entry> reduction_operators();
[[nodiscard]] std::span<const operator_entry> shape_operators();
[[nodiscard]] std::span<const operator_entry> vision_operators();
///@}

/// The entry for an operator of this version of ONNX's own operator set; nullptr if there is none.
[[nodiscard]] const operator_entry* find_operator(std::string_view name, std::int64_t opset);

}  // namespace sluice::models
