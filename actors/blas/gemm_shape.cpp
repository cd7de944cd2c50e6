// SPDX-License-Identifier: Apache-2.0
#include "actors/blas/gemm_shape.hpp"

#include <sluice/runtime/error.hpp>

#include <algorithm>
#include <limits>
#include <string>

namespace sluice::actors {

namespace {

/// A matrix as it is stored: `lines` rows or columns of `length` elements each.
struct stored_matrix {
  std::int64_t lines;
  std::int64_t length;
};

/// The stored form of a matrix that is `rows` × `columns` after `t` has been applied.
stored_matrix stored(layout l, transpose t, std::int64_t rows, std::int64_t columns) noexcept {
  return (l == layout::row_major) == (t == transpose::no) ? stored_matrix{rows, columns}
                                                          : stored_matrix{columns, rows};
}

stored_matrix stored_a(const gemm_shape& s) noexcept {
  return stored(s.layout, s.transpose_a, s.m, s.k);
}
stored_matrix stored_b(const gemm_shape& s) noexcept {
  return stored(s.layout, s.transpose_b, s.k, s.n);
}
stored_matrix stored_c(const gemm_shape& s) noexcept {
  return stored(s.layout, transpose::no, s.m, s.n);
}

void require_dimension(const char* name, std::int64_t value) {
  if (value < 0) {
    throw error(errc::invalid_argument, "gemm: " + std::string(name) + " is " +
                                            std::to_string(value) + ", but must not be negative");
  }
}

std::size_t extent(const gemm_shape& shape, stored_matrix matrix, std::int64_t leading,
                   char operand) {
  const std::int64_t smallest = std::max<std::int64_t>(1, matrix.length);
  if (leading < smallest) {
    std::string name = "ld";
    name += static_cast<char>(operand - 'A' + 'a');
    throw error(errc::invalid_argument,
                "gemm: " + name + " is " + std::to_string(leading) + ", but must be at least " +
                    std::to_string(smallest) + ": " + operand + " is stored as " +
                    std::to_string(matrix.lines) +
                    (shape.layout == layout::row_major ? " rows of " : " columns of ") +
                    std::to_string(matrix.length) + " elements");
  }
  if (matrix.lines == 0 || matrix.length == 0) return 0;
  // In bytes of the widest element it still is a size.
  constexpr std::int64_t most = std::numeric_limits<std::int64_t>::max() / 16;
  std::int64_t elements = 0;
  if (__builtin_mul_overflow(matrix.lines - 1, leading, &elements) ||
      __builtin_add_overflow(elements, matrix.length, &elements) || elements > most) {
    throw error(errc::invalid_argument, std::string("gemm: the size of ") + operand + " overflows");
  }
  return static_cast<std::size_t>(elements);
}

}  // namespace

gemm_shape packed(gemm_shape shape) noexcept {
  const auto fill = [](std::int64_t& leading, stored_matrix matrix) {
    if (leading == 0) leading = std::max<std::int64_t>(1, matrix.length);
  };
  fill(shape.lda, stored_a(shape));
  fill(shape.ldb, stored_b(shape));
  fill(shape.ldc, stored_c(shape));
  return shape;
}

gemm_extents validate(const gemm_shape& shape) {
  require_dimension("m", shape.m);
  require_dimension("n", shape.n);
  require_dimension("k", shape.k);
  return {.a = extent(shape, stored_a(shape), shape.lda, 'A'),
          .b = extent(shape, stored_b(shape), shape.ldb, 'B'),
          .c = extent(shape, stored_c(shape), shape.ldc, 'C')};
}

}  // namespace sluice::actors
