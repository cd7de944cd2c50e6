// SPDX-License-Identifier: Apache-2.0
#pragma once

// Kernels include this header, so it compiles as C++17.

#include <sluice/host_device_code.hpp>
#include <sluice/runtime/float16.hpp>

#include <cstdint>

namespace sluice {

namespace detail {

// Conversions without branches, so that loops of them use vectors.

/// The magnitude of an `f32`, given by its bits, as one of a format with a sign, `Fraction` bits of
/// fraction and the exponent bias `Bias`: rounded to the nearest value, ties to even. Behind the
/// largest number of the format, its numbers go on. Of a NaN, any number.
template <unsigned Fraction, unsigned Bias>
SLUICE_HOST_DEVICE inline std::uint32_t rounded_magnitude(std::uint32_t magnitude) noexcept {
  constexpr std::uint32_t shift = 23U - Fraction;
  constexpr std::uint32_t smallest_normal = (128U - Bias) << 23U;
  // A number whose last place is the smallest number of the format: adding it rounds to that place.
  constexpr std::uint32_t rounding = (127U + 23U + 1U - Bias - Fraction) << 23U;
  // The part up to the smallest normal number, and the part beyond it.
  const std::uint32_t low = magnitude < smallest_normal ? magnitude : smallest_normal;
  const std::uint32_t high = magnitude > smallest_normal ? magnitude : smallest_normal;
  const std::uint32_t half = (1U << (shift - 1U)) - 1U + ((high >> shift) & 1U);
  return bits_of(float_of(low) + float_of(rounding)) - rounding +
         ((high + half - smallest_normal) >> shift);
}

/// The `f32` of a finite magnitude of such a format, with further bits set: a sign, or all of the
/// exponent.
template <unsigned Fraction, unsigned Bias>
SLUICE_HOST_DEVICE inline float value_of_magnitude(std::uint32_t magnitude,
                                                   std::uint32_t bits) noexcept {
  // A number without a leading 1 gets one, which is subtracted again.
  constexpr std::uint32_t smallest_normal = (128U - Bias) << 23U;
  const bool is_subnormal = magnitude >> Fraction == 0;
  const std::uint32_t exponent = is_subnormal ? smallest_normal : (127U - Bias) << 23U;
  const std::uint32_t excess = is_subnormal ? smallest_normal : 0U;
  const float value = float_of((magnitude << (23U - Fraction)) + exponent) - float_of(excess);
  return float_of(bits_of(value) | bits);
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
    const std::uint32_t special = magnitude == nan ? 0x7fc00000U : 0U;
    return detail::value_of_magnitude<3, 7>(magnitude, sign | special);
  }
  /// Whether both have the same representation.
  SLUICE_HOST_DEVICE friend bool operator==(e4m3 a, e4m3 b) noexcept { return a.bits == b.bits; }

 private:
  static constexpr std::uint32_t largest = 0x7e;  // 448
  static constexpr std::uint32_t nan = 0x7f;

  /// Magnitudes behind the largest number become `overflow`.
  SLUICE_HOST_DEVICE e4m3(float value, std::uint32_t overflow) noexcept {
    const std::uint32_t word = detail::bits_of(value);
    const std::uint32_t magnitude = word & 0x7fffffffU;
    const std::uint32_t rounded = detail::rounded_magnitude<3, 7>(magnitude);
    const std::uint32_t number = rounded > largest ? overflow : rounded;
    const std::uint32_t special = magnitude > 0x7f800000U ? nan : 0U;
    bits = static_cast<std::uint8_t>(((word >> 24U) & 0x80U) | number | special);
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
    const std::uint32_t special =
        (magnitude >= infinite ? 0x7f800000U : 0U) | (magnitude > infinite ? 0x400000U : 0U);
    return detail::value_of_magnitude<2, 15>(magnitude, sign | special);
  }
  /// Whether both have the same representation.
  SLUICE_HOST_DEVICE friend bool operator==(e5m2 a, e5m2 b) noexcept { return a.bits == b.bits; }

 private:
  static constexpr std::uint32_t largest = 0x7b;  // 57344
  static constexpr std::uint32_t infinite = 0x7c;
  static constexpr std::uint32_t nan = 0x7f;

  /// Magnitudes behind the largest number become `overflow`.
  SLUICE_HOST_DEVICE e5m2(float value, std::uint32_t overflow) noexcept {
    const std::uint32_t word = detail::bits_of(value);
    const std::uint32_t magnitude = word & 0x7fffffffU;
    const std::uint32_t rounded = detail::rounded_magnitude<2, 15>(magnitude);
    const std::uint32_t number = rounded > largest ? overflow : rounded;
    const std::uint32_t special = magnitude > 0x7f800000U ? nan : 0U;
    bits = static_cast<std::uint8_t>(((word >> 24U) & 0x80U) | number | special);
  }
};

}  // namespace sluice
