// SPDX-License-Identifier: Apache-2.0
#pragma once

// Kernels include this header, so it compiles as C++17.

#include <sluice/host_device_code.hpp>

#include <cstdint>
#include <cstring>

namespace sluice {

namespace detail {

SLUICE_HOST_DEVICE inline std::uint32_t bits_of(float value) noexcept {
  std::uint32_t bits = 0;
  std::memcpy(&bits, &value, sizeof bits);
  return bits;
}
SLUICE_HOST_DEVICE inline float float_of(std::uint32_t bits) noexcept {
  float value = 0;
  std::memcpy(&value, &bits, sizeof value);
  return value;
}

}  // namespace detail

/// An IEEE 754 binary16 number: 5 bits of exponent, 10 of fraction. A storage type: arithmetic
/// happens in `float`.
struct f16 {
  std::uint16_t bits = 0;  ///< the representation

  f16() = default;
  /// Rounds to the nearest value, ties to even. A magnitude of 65520 or more becomes infinite. A
  /// NaN stays one and becomes quiet.
  SLUICE_HOST_DEVICE explicit f16(float value) noexcept {
    const std::uint32_t word = detail::bits_of(value);
    const std::uint32_t magnitude = word & 0x7fffffffU;
    std::uint32_t result = 0;
    if (magnitude > 0x7f800000U) {
      result = 0x7e00U | ((magnitude >> 13U) & 0x3ffU);
    } else if (magnitude >= 0x477ff000U) {  // 65520
      result = 0x7c00U;
    } else if (magnitude >= 0x38800000U) {  // 2^-14, the smallest normal number
      result = (magnitude + 0xfffU + ((magnitude >> 13U) & 1U) - 0x38000000U) >> 13U;
    } else if (magnitude > 0x33000000U) {  // 2^-25, half of the smallest number
      const std::uint32_t shift = 126U - (magnitude >> 23U);
      const std::uint32_t fraction = (magnitude & 0x7fffffU) | 0x800000U;
      result = fraction >> shift;
      const std::uint32_t rest = fraction & ((1U << shift) - 1U);
      const std::uint32_t half = 1U << (shift - 1U);
      if (rest > half || (rest == half && (result & 1U) != 0)) ++result;
    }
    bits = static_cast<std::uint16_t>(((word >> 16U) & 0x8000U) | result);
  }
  /// The same value. Exact.
  SLUICE_HOST_DEVICE explicit operator float() const noexcept {
    const std::uint32_t sign = (bits & 0x8000U) << 16U;
    const std::uint32_t exponent = (bits >> 10U) & 0x1fU;
    const std::uint32_t fraction = bits & 0x3ffU;
    if (exponent == 0) {
      const float magnitude = static_cast<float>(fraction) * 0x1p-24F;
      return sign != 0 ? -magnitude : magnitude;
    }
    const std::uint32_t magnitude_bits = exponent == 31 ? 0x7f800000U : (exponent + 112U) << 23U;
    return detail::float_of(sign | magnitude_bits | (fraction << 13U));
  }
  /// Whether both have the same representation.
  SLUICE_HOST_DEVICE friend bool operator==(f16 a, f16 b) noexcept { return a.bits == b.bits; }
};

/// A bfloat16 number: the upper half of a `float`, with 8 bits of exponent and 7 of fraction. A
/// storage type: arithmetic happens in `float`.
struct bf16 {
  std::uint16_t bits = 0;  ///< the representation

  bf16() = default;
  /// Rounds to the nearest value, ties to even. A NaN stays one and becomes quiet.
  SLUICE_HOST_DEVICE explicit bf16(float value) noexcept {
    const std::uint32_t word = detail::bits_of(value);
    const bool nan = (word & 0x7fffffffU) > 0x7f800000U;
    bits = static_cast<std::uint16_t>(nan ? (word >> 16U) | 0x40U
                                          : (word + 0x7fffU + ((word >> 16U) & 1U)) >> 16U);
  }
  /// The same value. Exact.
  SLUICE_HOST_DEVICE explicit operator float() const noexcept {
    return detail::float_of(static_cast<std::uint32_t>(bits) << 16U);
  }
  /// Whether both have the same representation.
  SLUICE_HOST_DEVICE friend bool operator==(bf16 a, bf16 b) noexcept { return a.bits == b.bits; }
};

}  // namespace sluice
