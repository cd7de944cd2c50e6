// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cmath>
#include <complex>
#include <cstddef>
#include <vector>

namespace sluice::test {

using wide = std::complex<long double>;

/// The discrete Fourier transform by its definition, in long double, in quadratic time.
class dft_reference {
 public:
  /// @param sign that of the exponent
  dft_reference(std::size_t length, int sign) : roots_(length) {
    for (std::size_t k = 0; k < length; ++k) {
      const long double turn = static_cast<long double>(k) / static_cast<long double>(length);
      const long double angle = 2 * 3.14159265358979323846264338327950288L * turn;
      roots_[k] = {std::cos(angle), sign * std::sin(angle)};
    }
  }

  [[nodiscard]] std::size_t length() const noexcept { return roots_.size(); }

  /// One bin.
  template <class Value>
  [[nodiscard]] wide bin(const Value* row, std::size_t k) const {
    const std::size_t n = roots_.size();
    wide sum = 0;
    std::size_t root = 0;  // j * k modulo n
    for (std::size_t j = 0; j < n; ++j) {
      sum += widened(row[j]) * roots_[root];
      root += k;
      if (root >= n) root -= n;
    }
    return sum;
  }

 private:
  template <class Real>
  [[nodiscard]] static wide widened(std::complex<Real> z) {
    return {z.real(), z.imag()};
  }
  [[nodiscard]] static wide widened(wide z) { return z; }
  [[nodiscard]] static long double widened(long double x) { return x; }

  std::vector<wide> roots_;
};

/// Σ_j row[j] exp(sign · 2πi jk/n) for every k.
template <class Value>
[[nodiscard]] std::vector<std::complex<double>> dft(const Value* row, std::size_t n, int sign) {
  const dft_reference reference(n, sign);
  std::vector<std::complex<double>> bins;
  for (std::size_t k = 0; k < n; ++k) bins.emplace_back(reference.bin(row, k));
  return bins;
}

/// The whole spectrum that c2r takes `bins` (n/2 + 1 of them) for: Hermitian, and real where it is
/// its own mirror image.
template <class Real>
[[nodiscard]] std::vector<wide> hermitian(const std::complex<Real>* bins, std::size_t n) {
  std::vector<wide> all(n);
  for (std::size_t k = 0; k <= n / 2; ++k) {
    const wide bin(bins[k].real(), bins[k].imag());
    const bool own_mirror = k == 0 || 2 * k == n;
    all[k] = own_mirror ? wide(bin.real()) : bin;
    if (!own_mirror) all[n - k] = std::conj(bin);
  }
  return all;
}

/// The n real numbers whose spectrum begins with the n/2 + 1 bins at `bins`, times n.
template <class Real>
[[nodiscard]] std::vector<double> inverse_real_dft(const std::complex<Real>* bins, std::size_t n) {
  std::vector<double> row;
  for (const auto& value : dft(hermitian(bins, n).data(), n, +1)) row.push_back(value.real());
  return row;
}

}  // namespace sluice::test
