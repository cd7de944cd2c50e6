// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sluice/actors/blas_types.hpp>
#include <sluice/actors/dnn_types.hpp>

#include <cmath>
#include <complex>
#include <cstddef>
#include <cstdint>
#include <numbers>
#include <vector>

/// What the operations should come to, in double precision, by their definitions.
namespace sluice::test {

struct gemm_problem {
  sluice::layout layout = sluice::layout::row_major;
  transpose transpose_a = transpose::no;
  transpose transpose_b = transpose::no;
  std::int64_t m = 0;
  std::int64_t n = 0;
  std::int64_t k = 0;
  std::int64_t lda = 0;
  std::int64_t ldb = 0;
  std::int64_t ldc = 0;

  /// Where an element stands in a matrix with leading dimension `ld`.
  [[nodiscard]] std::size_t at(std::int64_t row, std::int64_t column, std::int64_t ld) const {
    return static_cast<std::size_t>(layout == sluice::layout::row_major ? row * ld + column
                                                                        : column * ld + row);
  }
  [[nodiscard]] std::int64_t rows_of_a() const { return transpose_a == transpose::no ? m : k; }
  [[nodiscard]] std::int64_t columns_of_a() const { return transpose_a == transpose::no ? k : m; }
  [[nodiscard]] std::int64_t rows_of_b() const { return transpose_b == transpose::no ? k : n; }
  [[nodiscard]] std::int64_t columns_of_b() const { return transpose_b == transpose::no ? n : k; }
  /// The smallest leading dimension of a stored matrix.
  [[nodiscard]] std::int64_t packed(std::int64_t rows, std::int64_t columns) const {
    return std::max<std::int64_t>(1, layout == sluice::layout::row_major ? columns : rows);
  }
  /// The elements from the first to the last of a stored matrix.
  [[nodiscard]] std::size_t extent(std::int64_t rows, std::int64_t columns, std::int64_t ld) const {
    return rows == 0 || columns == 0 ? 0 : at(rows - 1, columns - 1, ld) + 1;
  }
};

/// All of C's memory, gaps included, after C = alpha·op(A)·op(B) + beta·C.
template <class T>
std::vector<double> gemm_reference(const gemm_problem& p, double alpha, const std::vector<T>& a,
                                   const std::vector<T>& b, double beta, const std::vector<T>& c) {
  std::vector<double> result(c.begin(), c.end());
  for (std::int64_t i = 0; i < p.m; ++i) {
    for (std::int64_t j = 0; j < p.n; ++j) {
      double sum = 0;
      for (std::int64_t l = 0; l < p.k; ++l) {
        const auto from_a = p.transpose_a == transpose::no ? p.at(i, l, p.lda) : p.at(l, i, p.lda);
        const auto from_b = p.transpose_b == transpose::no ? p.at(l, j, p.ldb) : p.at(j, l, p.ldb);
        sum += static_cast<double>(a[from_a]) * static_cast<double>(b[from_b]);
      }
      double& into = result[p.at(i, j, p.ldc)];
      into = alpha * sum + (beta == 0 ? 0 : beta * into);
    }
  }
  return result;
}

/// A row-major product without gaps.
inline std::vector<double> product(std::size_t m, std::size_t n, std::size_t k,
                                   const std::vector<double>& a, const std::vector<double>& b) {
  std::vector<double> c(m * n);
  for (std::size_t i = 0; i < m; ++i) {
    for (std::size_t l = 0; l < k; ++l) {
      for (std::size_t j = 0; j < n; ++j) c[i * n + j] += a[i * k + l] * b[l * n + j];
    }
  }
  return c;
}

/// The convolution by its definition; `bias` may be empty.
inline std::vector<double> conv2d_reference(const nchw_shape& in, const filter_shape& filter,
                                            const conv2d_geometry& g, const std::vector<float>& x,
                                            const std::vector<float>& w,
                                            const std::vector<float>& bias, bool relu) {
  const auto out = conv2d_output_shape(in, filter, g);
  std::vector<double> y;
  y.reserve(out.elements());
  const std::int64_t filters_per_group = filter.k / g.groups;
  for (std::int64_t image = 0; image < out.n; ++image) {
    for (std::int64_t k = 0; k < out.c; ++k) {
      for (std::int64_t row = 0; row < out.h; ++row) {
        for (std::int64_t column = 0; column < out.w; ++column) {
          double sum = bias.empty() ? 0.0 : static_cast<double>(bias[static_cast<std::size_t>(k)]);
          for (std::int64_t c = 0; c < filter.c; ++c) {
            const std::int64_t channel = k / filters_per_group * filter.c + c;
            for (std::int64_t r = 0; r < filter.r; ++r) {
              for (std::int64_t s = 0; s < filter.s; ++s) {
                const std::int64_t h = row * g.stride.h - g.padding.h + r * g.dilation.h;
                const std::int64_t v = column * g.stride.w - g.padding.w + s * g.dilation.w;
                if (h < 0 || h >= in.h || v < 0 || v >= in.w) continue;
                const auto from_x =
                    static_cast<std::size_t>(((image * in.c + channel) * in.h + h) * in.w + v);
                const auto from_w =
                    static_cast<std::size_t>(((k * filter.c + c) * filter.r + r) * filter.s + s);
                sum += static_cast<double>(x[from_x]) * static_cast<double>(w[from_w]);
              }
            }
          }
          y.push_back(relu ? std::max(0.0, sum) : sum);
        }
      }
    }
  }
  return y;
}

/// Σ_j row[j] exp(sign · 2πi jk/n) for every k.
template <class Value>
std::vector<std::complex<double>> dft(const Value* row, std::size_t n, int sign) {
  std::vector<std::complex<double>> bins(n);
  for (std::size_t k = 0; k < n; ++k) {
    std::complex<double> sum = 0;
    for (std::size_t j = 0; j < n; ++j) {
      const double turn = static_cast<double>(j * k % n) / static_cast<double>(n);
      sum += std::complex<double>(row[j]) * std::polar(1.0, sign * 2 * std::numbers::pi * turn);
    }
    bins[k] = sum;
  }
  return bins;
}

/// The n real numbers whose spectrum begins with the n/2 + 1 bins at `bins`, times n.
template <class Real>
std::vector<double> inverse_real_dft(const std::complex<Real>* bins, std::size_t n) {
  std::vector<std::complex<double>> all(n);
  for (std::size_t k = 0; k <= n / 2; ++k) {
    const std::complex<double> bin(bins[k]);
    const bool own_mirror = k == 0 || 2 * k == n;
    all[k] = own_mirror ? bin.real() : bin;
    if (!own_mirror) all[n - k] = std::conj(bin);
  }
  std::vector<double> row(n);
  const auto transformed = dft(all.data(), n, +1);
  for (std::size_t j = 0; j < n; ++j) row[j] = transformed[j].real();
  return row;
}

}  // namespace sluice::test
