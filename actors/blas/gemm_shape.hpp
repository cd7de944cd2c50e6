// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sluice/actors/blas_types.hpp>

#include <cstddef>
#include <cstdint>

namespace sluice::actors {

/// The shape of C = alpha·op(A)·op(B) + beta·C, where op(A) is m × k, op(B) is k × n and C is
/// m × n. All three matrices have one layout; leading dimensions are those of the stored matrices,
/// in elements.
struct gemm_shape {
  sluice::layout layout = sluice::layout::row_major;
  transpose transpose_a = transpose::no;
  transpose transpose_b = transpose::no;
  std::int64_t m = 0;
  std::int64_t n = 0;
  std::int64_t k = 0;
  std::int64_t lda = 0;
  std::int64_t ldb = 0;
  std::int64_t ldc = 0;
};

/// How many elements each operand covers, from its first to its last one; 0 for an empty matrix.
struct gemm_extents {
  std::size_t a = 0;
  std::size_t b = 0;
  std::size_t c = 0;
};

/// `shape` with each leading dimension that is 0 replaced by the smallest one: no gaps between rows
/// or columns.
[[nodiscard]] gemm_shape packed(gemm_shape shape) noexcept;

/// What the operands of `shape` cover.
/// @throws error `invalid_argument`, naming the argument: a negative dimension; a leading dimension
///   below 1 or below the row or column that it spans; an operand whose size overflows
gemm_extents validate(const gemm_shape& shape);

}  // namespace sluice::actors
