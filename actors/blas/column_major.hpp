// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "actors/blas/blas_library.hpp"

#include <utility>

namespace sluice::actors {

/// The same product for a library that knows column-major matrices only. A row-major matrix is its
/// own transpose in column-major order, and Cᵀ = op(B)ᵀ·op(A)ᵀ: the operands and their dimensions
/// change places.
template <class T>
[[nodiscard]] gemm_call<T> as_column_major(gemm_call<T> call) noexcept {
  gemm_shape& shape = call.shape;
  if (shape.layout == layout::column_major) return call;
  shape.layout = layout::column_major;
  std::swap(shape.m, shape.n);
  std::swap(shape.transpose_a, shape.transpose_b);
  std::swap(shape.lda, shape.ldb);
  std::swap(call.a, call.b);
  return call;
}

}  // namespace sluice::actors
