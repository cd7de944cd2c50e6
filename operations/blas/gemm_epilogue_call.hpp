// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "operations/blas/epilogue_call.hpp"
#include "operations/blas/gemm_call.hpp"

#include <cstddef>
#include <cstdint>

namespace sluice::operations {

/// The alignment that operands of cuBLASLt need, in bytes.
inline constexpr std::size_t fused_alignment = 16;

/// Products, and the part of their epilogue that cuBLASLt computes with them. A plan depends on it.
/// Without such a part, everything is 0.
struct fused_key {
  std::int64_t m = 0;
  std::int64_t n = 0;
  std::int64_t k = 0;
  std::int64_t count = 0;
  std::int64_t first_leading = 0;
  std::int64_t first_distance = 0;
  std::int64_t second_leading = 0;
  std::int64_t second_distance = 0;
  std::int64_t c_leading = 0;
  std::int64_t c_distance = 0;
  std::int64_t residual_leading = 0;   ///< if the residual is part of it
  std::int64_t residual_distance = 0;  ///< if the residual is part of it
  std::int32_t type = 0;               ///< of A and B, an `element_type`
  std::int32_t c_type = 0;             ///< of C, an `element_type`
  std::int32_t first_is_transposed = 0;
  std::int32_t second_is_transposed = 0;
  std::int32_t may_use_tf32 = 0;
  std::int32_t adds_bias = 0;
  std::int32_t function = 0;  ///< an `activation`
  std::int32_t adds_residual = 0;

  [[nodiscard]] bool is_empty() const noexcept { return count == 0; }
};

/// Products with an epilogue.
struct gemm_epilogue_call {
  gemm_call products{};
  epilogue_call epilogue{};
  fused_key key{};

  /// The part of the epilogue that cuBLASLt does not compute.
  [[nodiscard]] epilogue_call remaining() const noexcept {
    auto rest = epilogue;
    if (key.adds_bias != 0) rest.bias = bias_axis::none;
    if (key.function != 0) rest.function = activation::none;
    if (key.adds_residual != 0) rest.has_residual = false;
    return rest;
  }
  [[nodiscard]] launch_facts facts() const noexcept {
    auto result = products.facts();
    ++result.commands;
    return result;
  }
};

/// Infers a gemm with a bias, an activation or a residual.
[[nodiscard]] gemm_epilogue_call infer_epilogue(const gemm& op, inference& inference);

}  // namespace sluice::operations
