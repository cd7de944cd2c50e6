// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <complex>
#include <cstddef>
#include <memory>
#include <vector>

namespace sluice::operations {

/// exp(sign * 2πi numerator / denominator), rounded once; `numerator` below `denominator`.
template <class Real>
[[nodiscard]] std::complex<Real> root_of_unity(int sign, std::size_t numerator,
                                               std::size_t denominator);

/// The unnormalised complex transform of one length and direction. Not thread-safe: it owns scratch
/// memory.
template <class Real>
class host_transform {
 public:
  virtual ~host_transform() = default;
  /// `in` and `out` do not overlap.
  virtual void operator()(const std::complex<Real>* in, std::complex<Real>* out) = 0;
};

/// By KissFFT where the length has small factors only; otherwise, because KissFFT takes quadratic
/// time for a large prime factor, by Bluestein's algorithm over a power of two (L. Bluestein, "A
/// linear filtering approach to the computation of discrete Fourier transform", 1970), in double.
/// @param sign that of the exponent: -1 forward, +1 inverse
template <class Real>
[[nodiscard]] std::unique_ptr<host_transform<Real>> make_host_transform(std::size_t length,
                                                                        int sign);
/// The size of the tables and of the scratch memory of `make_host_transform`.
/// @throws std::length_error if the length is too large
template <class Real>
[[nodiscard]] std::size_t host_transform_bytes(std::size_t length);

/// The transforms of a real signal and back, by a complex transform of half the length where it is
/// even. Not thread-safe.
template <class Real>
class host_real_transform {
 public:
  /// @param sign -1 for `forward`, +1 for `inverse`
  host_real_transform(std::size_t length, int sign);

  /// `length` numbers to length/2 + 1 bins.
  void forward(const Real* in, std::complex<Real>* out);
  /// length/2 + 1 bins, which are preserved, to `length` numbers.
  void inverse(const std::complex<Real>* in, Real* out);
  /// The size of the tables and of the scratch memory for a length.
  /// @throws std::length_error if the length is too large
  [[nodiscard]] static std::size_t bytes(std::size_t length) {
    const bool even = length % 2 == 0;
    return host_transform_bytes<Real>(even ? length / 2 : length) +
           (even ? length + 1 : 2 * length) * sizeof(std::complex<Real>);
  }

 private:
  std::size_t length_;
  std::unique_ptr<host_transform<Real>> complex_;
  std::vector<std::complex<Real>> roots_;  // of even lengths: exp(sign * 2πi k / length)
  std::vector<std::complex<Real>> scratch_;
};

}  // namespace sluice::operations
