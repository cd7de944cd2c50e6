// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sluice/export.hpp>
#include <sluice/operations/members.hpp>
#include <sluice/operations/operation_type.hpp>
#include <sluice/operations/scalar.hpp>

#include <cstdint>
#include <tuple>

namespace sluice {

/// The sign of the exponent of a complex transform.
enum class fft_direction : std::uint8_t {
  forward,  ///< exp(-2πi jk/n)
  inverse,  ///< exp(+2πi jk/n)
};

/// Discrete Fourier transforms along the last dimension, n complex numbers to n:
/// Y[k] = scale · Σ_j X[j] exp(∓2πi jk/n).
///
///     fft{.x = signal}
///     fft{.x = spectrum, .direction = fft_direction::inverse, .scale = 1.0 / n}
///
/// Element types: c64, c128. Nothing is normalized: forward, then inverse multiplies by n. The
/// leading dimensions count independent rows. Rows without gaps, with one distance between them,
/// are used as they are if they begin at a multiple of the size of a complex element; rows of X may
/// overlap. An operand with another layout is packed: the launch uses a copy in temporary memory. X
/// is preserved. Y may be the same view as X; otherwise they share no bytes. The result is Y, a new
/// row-major tensor if it is not given.
///
/// The sums are formed in the precision of X and then multiplied by the scale. No sum overflows if
/// the sum of |X[j]| over a row is at most a thousandth of the largest number of the type: 3.4e35
/// for c64. Beyond that, results may be infinite or NaN even if the scaled ones would be in range.
/// Multiply such an X by the scale before the transform.
struct fft {
  operand x{};                                       ///< X, of shape [..., n], n at least 1
  operand y{};                                       ///< Y, of the shape of X
  fft_direction direction = fft_direction::forward;  ///< sign of the exponent
  scalar scale = 1;                                  ///< factor of the result, real

  /// All members, in order.
  template <class = void>
  static constexpr auto members() {
    return std::make_tuple(input("x", &fft::x), output("y", &fft::y),
                           parameter("direction", &fft::direction),
                           parameter("scale", &fft::scale));
  }
};

/// Forward transforms along the last dimension, n real numbers to the first n/2 + 1 bins.
///
///     rfft{.x = frames}
///
/// Element types: f32 to c64, f64 to c128. Otherwise like `fft`; Y shares no bytes with X.
struct rfft {
  operand x{};       ///< X, of shape [..., n], n at least 1
  operand y{};       ///< Y, of shape [..., n/2 + 1]
  scalar scale = 1;  ///< factor of the result, real

  /// All members, in order.
  template <class = void>
  static constexpr auto members() {
    return std::make_tuple(input("x", &rfft::x), output("y", &rfft::y),
                           parameter("scale", &rfft::scale));
  }
};

/// Inverse transforms along the last dimension, n/2 + 1 bins of a Hermitian spectrum to n real
/// numbers.
///
///     irfft{.x = spectrum, .length = n, .scale = 1.0 / n}
///
/// Element types: c64 to f32, c128 to f64. The imaginary parts of bin 0 and, for even n, of bin n/2
/// are taken as 0. Otherwise like `fft`; rows of X that overlap are packed, and Y shares no bytes
/// with X. The sum of |X[j]| is that over all n bins: most of those in X count twice.
struct irfft {
  operand x{};              ///< X, of shape [..., n/2 + 1]
  operand y{};              ///< Y, of shape [..., n]
  std::int64_t length = 0;  ///< n; 0 stands for the even one that fits
  scalar scale = 1;         ///< factor of the result, real

  /// All members, in order.
  template <class = void>
  static constexpr auto members() {
    return std::make_tuple(input("x", &irfft::x), output("y", &irfft::y),
                           parameter("length", &irfft::length), parameter("scale", &irfft::scale));
  }
};

/// The functions behind the operations.
///@{
[[nodiscard]] SLUICE_EXPORT const operation_descriptor& descriptor_of(operation_type<fft>);
[[nodiscard]] SLUICE_EXPORT const operation_descriptor& descriptor_of(operation_type<rfft>);
[[nodiscard]] SLUICE_EXPORT const operation_descriptor& descriptor_of(operation_type<irfft>);
///@}

}  // namespace sluice
