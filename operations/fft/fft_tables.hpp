// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <complex>
#include <cstddef>
#include <vector>

// The factors and the roots of unity of the host's transforms.
namespace sluice::operations {

/// The largest prime factor that a pass takes. Above it a butterfly of that size costs more than
/// the two longer transforms of Bluestein's algorithm.
inline constexpr std::size_t largest_butterfly = 100;

[[nodiscard]] std::size_t largest_prime_factor(std::size_t n);

/// The length of the transforms of Bluestein's algorithm: a power of two.
/// @throws std::length_error if it is too large
[[nodiscard]] std::size_t padded_length(std::size_t length);

/// exp(sign * 2πi numerator / denominator), rounded once; `numerator` below `denominator`.
template <class Real>
[[nodiscard]] std::complex<Real> root_of_unity(int sign, std::size_t numerator,
                                               std::size_t denominator);

/// One pass of a transform: `groups` groups of `stride` butterflies of size `radix`.
template <class Real>
struct fft_pass {
  std::size_t radix = 1;
  std::size_t groups = 1;
  std::size_t stride = 1;
  std::vector<Real> twiddles;  ///< for each group radix - 1 complex numbers
  std::vector<Real> roots;     ///< of a radix above 5 that is odd: `radix` complex numbers
};

/// The passes of a transform; none for a length of 1.
template <class Real>
using fft_passes = std::vector<fft_pass<Real>>;

/// @param length without prime factors above `largest_butterfly`
template <class Real>
[[nodiscard]] fft_passes<Real> make_passes(std::size_t length);

/// An upper bound of the size of `make_passes(length)`.
template <class Real>
[[nodiscard]] constexpr std::size_t pass_bytes(std::size_t length) noexcept {
  // A pass has fewer twiddles than numbers, and a group fewer with each pass.
  return 2 * length * sizeof(std::complex<Real>) + 16 * sizeof(fft_pass<Real>);
}

}  // namespace sluice::operations
