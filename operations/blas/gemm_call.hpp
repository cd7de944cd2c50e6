// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "operations/elementwise/map_calls.hpp"

#include <sluice/operations/blas.hpp>
#include <sluice/operations/inference.hpp>
#include <sluice/operations/operation.hpp>

#include <complex>
#include <cstddef>
#include <cstdint>
#include <optional>

namespace sluice::operations {

/// The dimensions of one matrix of a stack.
inline constexpr std::size_t matrix_rank = 2;

/// One matrix of a `gemm_call`, in the terms of a column-major BLAS.
struct blas_matrix {
  std::int64_t leading = 1;   ///< distance between columns, in elements, at least 1
  std::int64_t distance = 0;  ///< distance between the matrices of the stack, in elements
  bool transposed = false;    ///< the stored matrix is the transpose
  [[nodiscard]] bool operator==(const blas_matrix&) const noexcept = default;
};

/// A gemm in the terms of a column-major BLAS: C[i] = alpha · op(A[i]) · op(B[i]) + beta · C[i].
///
/// A row-major C is the column-major Cᵀ = Bᵀ · Aᵀ, so `first` may be B and `second` A.
struct gemm_call {
  element_type type = element_type::f32;    ///< of A, and of B, which is i8 if A is an integer
  element_type c_type = element_type::f32;  ///< of C
  bool may_use_tf32 = false;                ///< for products of f32
  bool swapped = false;                     ///< `first` is B and `second` is A
  bool multiplies = true;                   ///< the operation reads A and B
  std::int64_t m = 0;                       ///< rows of C
  std::int64_t n = 0;                       ///< columns of C
  std::int64_t k = 0;                       ///< columns of op(first)
  std::int64_t count = 1;                   ///< number of products
  blas_matrix first{};
  blas_matrix second{};
  blas_matrix c{};
  std::complex<double> alpha = 1;  ///< exact in the compute type
  std::complex<double> beta = 0;   ///< exact in the compute type
  [[nodiscard]] bool operator==(const gemm_call&) const noexcept = default;

  /// Whether A and B have 16 bits. They are multiplied in f32.
  [[nodiscard]] bool is_16_bit() const noexcept {
    return type == element_type::f16 || type == element_type::bf16;
  }
  /// Whether A and B are integers.
  [[nodiscard]] bool is_integer() const noexcept { return type < element_type::f16; }
  [[nodiscard]] launch_facts facts() const noexcept {
    const auto products = static_cast<double>(m) * static_cast<double>(n) * static_cast<double>(k) *
                          static_cast<double>(count);
    return {.sizes = {swapped ? n : m, swapped ? m : n, k, count},
            .commands = 2,
            .work = work_of_products(products) + 3 * work_of_parts * static_cast<double>(count)};
  }
};

/// How a matrix that is stored by rows, or by columns, is stored, as a column-major BLAS sees it,
/// without the distance. Nothing for other strides.
///@{
[[nodiscard]] std::optional<blas_matrix> stored_by_rows(const tensor_spec& s);
[[nodiscard]] std::optional<blas_matrix> stored_by_columns(const tensor_spec& s);
///@}

/// C[i] = beta · C[i] of a call that does not multiply. It reads C unless beta is 0.
[[nodiscard]] scale_call scaling_of(const gemm_call& call);

/// The largest number of such products in a batch: those that do not fill a GPU alone.
[[nodiscard]] std::size_t most_in_batch(const gemm_call& call) noexcept;

/// The members of an operation that multiplies matrices, with the meaning that they have in `gemm`.
struct product_members {
  const operand& a;
  const operand& b;
  const operand& c;
  layout new_c = layout::row_major;
};
/// Refuses an operand that is no matrix and no stack of matrices.
void require_matrix(const inference& inference, const operand& operand, const tensor_spec& s);
/// Infers shapes and layouts of products. The call has the types and the factors.
void infer_products(const product_members& members, inference& inference, gemm_call& call);

/// Infers `op`; see `gemm`.
[[nodiscard]] gemm_call infer(const gemm& op, inference& inference);

}  // namespace sluice::operations
