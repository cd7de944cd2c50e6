// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "tests/support/random_values.hpp"
#include "tests/support/relative_error.hpp"

#include <sluice/operations/blas.hpp>

#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <random>
#include <span>
#include <vector>

namespace sluice::test {

/// The shape of a `blas_gemm`.
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

/// C = alpha·op(A)·op(B) + beta·C with its operands in host memory, gaps included.
template <class T>
struct gemm_problem {
  gemm_shape shape{};
  T alpha = 1;
  T beta = 0;
  std::vector<T> a{};
  std::vector<T> b{};
  std::vector<T> c{};
};

/// The dimensions of a matrix as it is stored.
struct stored_matrix {
  std::int64_t rows;
  std::int64_t columns;
};

inline stored_matrix stored_a(const gemm_shape& s) {
  return s.transpose_a == transpose::no ? stored_matrix{s.m, s.k} : stored_matrix{s.k, s.m};
}
inline stored_matrix stored_b(const gemm_shape& s) {
  return s.transpose_b == transpose::no ? stored_matrix{s.k, s.n} : stored_matrix{s.n, s.k};
}

/// The index of element (row, column) of a stored matrix.
inline std::size_t position(layout l, std::int64_t leading, std::int64_t row, std::int64_t column) {
  return static_cast<std::size_t>(l == layout::row_major ? row * leading + column
                                                         : column * leading + row);
}

/// `s` with the smallest leading dimensions.
inline gemm_shape without_gaps(gemm_shape s) {
  const auto smallest = [&](stored_matrix matrix) {
    return std::max<std::int64_t>(1, s.layout == layout::row_major ? matrix.columns : matrix.rows);
  };
  s.lda = smallest(stored_a(s));
  s.ldb = smallest(stored_b(s));
  s.ldc = smallest({s.m, s.n});
  return s;
}

/// `s` with the smallest leading dimensions, each enlarged by up to 5 elements.
inline gemm_shape with_gaps(gemm_shape s, std::mt19937_64& generator) {
  s = without_gaps(s);
  for (auto* leading : {&s.lda, &s.ldb, &s.ldc}) *leading += generator() % 6;
  return s;
}

/// A random shape whose leading dimensions are not set. C has at least four elements.
inline gemm_shape random_gemm_shape(std::mt19937_64& generator, std::int64_t largest) {
  const auto coin = [&] {
    return generator() % 2 == 0;
  };
  const auto dimension = [&] {
    return std::uniform_int_distribution<std::int64_t>(1, coin() ? largest : 6)(generator);
  };
  gemm_shape s{.layout = coin() ? layout::row_major : layout::column_major,
               .transpose_a = coin() ? transpose::yes : transpose::no,
               .transpose_b = coin() ? transpose::yes : transpose::no,
               .m = dimension(),
               .n = dimension(),
               .k = dimension()};
  if (s.m * s.n < 4) s.n += 3;
  return s;
}

/// A problem with random operands. If `beta` is 0, C is NaN, because it must not be read.
template <class T>
gemm_problem<T> random_gemm(const gemm_shape& s, T alpha, T beta, std::mt19937_64& generator) {
  const auto values = [&](stored_matrix matrix, std::int64_t leading) {
    const bool empty = matrix.rows == 0 || matrix.columns == 0;
    const auto last = position(s.layout, leading, matrix.rows - 1, matrix.columns - 1);
    return random_values<T>(generator, empty ? 0 : last + 1);
  };
  gemm_problem<T> p{.shape = s, .alpha = alpha, .beta = beta};
  p.a = values(stored_a(s), s.lda);
  p.b = values(stored_b(s), s.ldb);
  p.c = values({s.m, s.n}, s.ldc);
  if (beta == T(0)) std::fill(p.c.begin(), p.c.end(), std::numeric_limits<T>::quiet_NaN());
  return p;
}

/// All of C's memory after the operation, computed by its definition. The gaps are as before.
template <class T>
std::vector<double> gemm_reference(const gemm_problem<T>& p) {
  const auto& s = p.shape;
  std::vector<double> c(p.c.begin(), p.c.end());
  for (std::int64_t i = 0; i < s.m; ++i) {
    for (std::int64_t j = 0; j < s.n; ++j) {
      long double sum = 0;
      for (std::int64_t l = 0; l < s.k && p.alpha != T(0); ++l) {
        const auto of_a = s.transpose_a == transpose::no ? position(s.layout, s.lda, i, l)
                                                         : position(s.layout, s.lda, l, i);
        const auto of_b = s.transpose_b == transpose::no ? position(s.layout, s.ldb, l, j)
                                                         : position(s.layout, s.ldb, j, l);
        sum += static_cast<long double>(p.a[of_a]) * p.b[of_b];
      }
      double& element = c[position(s.layout, s.ldc, i, j)];
      const long double added = p.beta == T(0) ? 0 : static_cast<long double>(p.beta) * element;
      element = static_cast<double>(p.alpha * sum + added);
    }
  }
  return c;
}

/// The elements of C, row by row, without the gaps.
template <class T>
std::vector<T> elements_of_c(const gemm_shape& s, const std::vector<T>& c) {
  std::vector<T> elements;
  for (std::int64_t i = 0; i < s.m; ++i) {
    for (std::int64_t j = 0; j < s.n; ++j) elements.push_back(c[position(s.layout, s.ldc, i, j)]);
  }
  return elements;
}

/// Compares the elements of C with the reference.
template <class T>
void expect_elements_of_c(const gemm_problem<T>& p, const std::vector<T>& c) {
  EXPECT_LE(relative_error(elements_of_c(p.shape, c), elements_of_c(p.shape, gemm_reference(p))),
            error_bound<T>(static_cast<std::size_t>(p.shape.k)));
}

/// Compares all of C's memory with the reference: its gaps must be as before in every bit.
template <class T>
void expect_memory_of_c(const gemm_problem<T>& p, std::vector<T> c) {
  expect_elements_of_c(p, c);
  for (std::int64_t i = 0; i < p.shape.m; ++i) {
    for (std::int64_t j = 0; j < p.shape.n; ++j) {
      const auto index = position(p.shape.layout, p.shape.ldc, i, j);
      c[index] = p.c[index];
    }
  }
  EXPECT_TRUE(std::ranges::equal(std::as_bytes(std::span(c)), std::as_bytes(std::span(p.c))))
      << "a gap of C was written";
}

}  // namespace sluice::test
