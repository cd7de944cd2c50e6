// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "operations/blas/epilogue_call.hpp"
#include "operations/blas/gemm_call.hpp"

#include <cstddef>
#include <cstdint>

namespace sluice::operations {

/// The alignment that operands of cuBLASLt need, in bytes.
inline constexpr std::size_t fused_alignment = 16;

/// From this number of terms on, products take a GPU so long that a choice among algorithms is
/// worth a plan and a trial. 2^31 terms of 16 bits take an H200 about 8 µs.
inline constexpr double min_terms_of_choice = std::int64_t{1} << 31U;

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

/// Products without an epilogue as a key.
[[nodiscard]] fused_key product_key(const gemm_call& products) noexcept;
/// Adds the part of an epilogue to a key that cuBLASLt computes with the products.
void add_fused_part(fused_key& key, const gemm_call& products,
                    const epilogue_call& epilogue) noexcept;
/// The part of an epilogue that cuBLASLt does not compute.
[[nodiscard]] inline epilogue_call remaining_epilogue(const epilogue_call& epilogue,
                                                      const fused_key& key) noexcept {
  auto rest = epilogue;
  if (key.adds_bias != 0) rest.bias = bias_axis::none;
  if (key.function != 0) rest.function = activation::none;
  if (key.adds_residual != 0) rest.has_residual = false;
  return rest;
}

/// Products with an epilogue.
struct gemm_epilogue_call {
  gemm_call products{};
  epilogue_call epilogue{};
  fused_key key{};

  /// The part of the epilogue that cuBLASLt does not compute.
  [[nodiscard]] epilogue_call remaining() const noexcept {
    return remaining_epilogue(epilogue, key);
  }
  [[nodiscard]] launch_facts facts() const noexcept {
    auto result = products.facts();
    ++result.commands;
    return result;
  }
};

/// The members of an operation that multiplies matrices with an epilogue, with the meaning that
/// they have in `gemm`.
struct epilogue_members {
  const operand& a;
  const operand& b;
  const operand& c;
  const operand& bias;
  const operand& residual;
  sluice::activation activation = sluice::activation::none;
};
/// An epilogue of products that are inferred.
struct inferred_epilogue {
  epilogue_call call{};
  // As cuBLASLt needs them:
  bool products_are_aligned = false;  ///< A, B and C
  bool is_aligned = false;            ///< all operands
};
/// Infers the epilogue of `products`. It is empty if C is.
[[nodiscard]] inferred_epilogue infer_epilogue(const epilogue_members& members,
                                               inference& inference, const gemm_call& products);

/// Infers a gemm with a bias, an activation or a residual.
[[nodiscard]] gemm_epilogue_call infer_epilogue(const gemm& op, inference& inference);

}  // namespace sluice::operations
