// SPDX-License-Identifier: Apache-2.0
#pragma once

// Kernels include this header, so it compiles as C++17.

#include <sluice/host_device_code.hpp>
#include <sluice/runtime/float16.hpp>

#include <cstdint>

namespace sluice {

namespace detail {

/// The magnitude of an `f32`, which is no NaN, as one of a format with a sign, `Fraction` bits of
/// fraction and the exponent bias `Bias`: rounded to the nearest value, ties to even. Behind the
/// largest number of the format, its numbers go on.
template <unsigned Fraction, unsigned Bias>
SLUICE_HOST_DEVICE inline std::uint32_t rounded_magnitude(std::uint32_t magnitude) noexcept {
  constexpr std::uint32_t shift = 23U - Fraction;
  constexpr std::uint32_t smallest_normal = (128U - Bias) << 23U;
  // A number whose last place is the smallest number of the format: adding it rounds to that place.
  constexpr std::uint32_t rounding = (127U + 23U + 1U - Bias - Fraction) << 23U;
  if (magnitude < smallest_normal) {
    return bits_of(float_of(magnitude) + float_of(rounding)) - rounding;
  }
  const std::uint32_t half = (1U << (shift - 1U)) - 1U + ((magnitude >> shift) & 1U);
  return (magnitude + half - ((127U - Bias) << 23U)) >> shift;
}

/// The `f32` of a magnitude of such a format, which is finite.
template <unsigned Fraction, unsigned Bias>
SLUICE_HOST_DEVICE inline float value_of_magnitude(std::uint32_t magnitude,
                                                   std::uint32_t sign) noexcept {
  constexpr std::uint32_t smallest = (127U + 1U - Bias - Fraction) << 23U;
  if (magnitude >> Fraction == 0) {
    const float value = static_cast<float>(static_cast<int>(magnitude)) * float_of(smallest);
    return sign != 0 ? -value : value;
  }
  return float_of(sign | ((magnitude << (23U - Fraction)) + ((127U - Bias) << 23U)));
}

}  // namespace detail

/// A number of 8 bits with 4 bits of exponent and 3 of fraction: E4M3 of the Open Compute Project,
/// which ONNX calls FLOAT8E4M3FN. It has no infinities. The largest number is 448 and the smallest
/// positive one 2^-9. A storage type: arithmetic happens in `float`.
struct e4m3 {
  std::uint8_t bits = 0;  ///< the representation

  e4m3() = default;
  /// Rounds to the nearest value, ties to even. A magnitude above 448 becomes 448, also an
  /// infinity. A NaN stays one.
  SLUICE_HOST_DEVICE explicit e4m3(float value) noexcept : e4m3(value, largest) {}
  /// Likewise, but a magnitude that is not rounded to 448 or less becomes NaN.
  [[nodiscard]] SLUICE_HOST_DEVICE static e4m3 unsaturated(float value) noexcept {
    return {value, nan};
  }
  /// The same value. Exact.
  SLUICE_HOST_DEVICE explicit operator float() const noexcept {
    const std::uint32_t sign = (bits & 0x80U) << 24U;
    const std::uint32_t magnitude = bits & 0x7fU;
    return magnitude == nan ? detail::float_of(sign | 0x7fc00000U)
                            : detail::value_of_magnitude<3, 7>(magnitude, sign);
  }
  /// Whether both have the same representation.
  SLUICE_HOST_DEVICE friend bool operator==(e4m3 a, e4m3 b) noexcept { return a.bits == b.bits; }

 private:
  static constexpr std::uint32_t largest = 0x7e;  // 448
  static constexpr std::uint32_t nan = 0x7f;

  /// Magnitudes behind the largest number become `overflow`.
  SLUICE_HOST_DEVICE e4m3(float value, std::uint32_t overflow) noexcept {
    const std::uint32_t word = detail::bits_of(value);
    std::uint32_t magnitude = nan;
    if ((word & 0x7fffffffU) <= 0x7f800000U) {
      magnitude = detail::rounded_magnitude<3, 7>(word & 0x7fffffffU);
      if (magnitude > largest) magnitude = overflow;
    }
    bits = static_cast<std::uint8_t>(((word >> 24U) & 0x80U) | magnitude);
  }
};

/// A number of 8 bits with 5 bits of exponent and 2 of fraction: the upper half of an `f16`. The
/// largest number is 57344 and the smallest positive one 2^-16. The Open Compute Project calls it
/// E5M2, and ONNX FLOAT8E5M2. A storage type: arithmetic happens in `float`.
struct e5m2 {
  std::uint8_t bits = 0;  ///< the representation

  e5m2() = default;
  /// Rounds to the nearest value, ties to even. A magnitude above 57344 becomes 57344, also an
  /// infinity. A NaN stays one.
  SLUICE_HOST_DEVICE explicit e5m2(float value) noexcept : e5m2(value, largest) {}
  /// Likewise, but a magnitude that is not rounded to 57344 or less becomes infinite.
  [[nodiscard]] SLUICE_HOST_DEVICE static e5m2 unsaturated(float value) noexcept {
    return {value, infinite};
  }
  /// The same value. Exact.
  SLUICE_HOST_DEVICE explicit operator float() const noexcept {
    const std::uint32_t sign = (bits & 0x80U) << 24U;
    const std::uint32_t magnitude = bits & 0x7fU;
    return magnitude >= infinite
               ? detail::float_of(sign | 0x7f800000U | (magnitude != infinite ? 0x400000U : 0U))
               : detail::value_of_magnitude<2, 15>(magnitude, sign);
  }
  /// Whether both have the same representation.
  SLUICE_HOST_DEVICE friend bool operator==(e5m2 a, e5m2 b) noexcept { return a.bits == b.bits; }

 private:
  static constexpr std::uint32_t largest = 0x7b;  // 57344
  static constexpr std::uint32_t infinite = 0x7c;
  static constexpr std::uint32_t nan = 0x7e;

  /// Magnitudes behind the largest number become `overflow`.
  SLUICE_HOST_DEVICE e5m2(float value, std::uint32_t overflow) noexcept {
    const std::uint32_t word = detail::bits_of(value);
    std::uint32_t magnitude = nan;
    if ((word & 0x7fffffffU) <= 0x7f800000U) {
      magnitude = detail::rounded_magnitude<2, 15>(word & 0x7fffffffU);
      if (magnitude > largest) magnitude = overflow;
    }
    bits = static_cast<std::uint8_t>(((word >> 24U) & 0x80U) | magnitude);
  }
};

}  // namespace sluice
