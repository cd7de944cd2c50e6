// SPDX-License-Identifier: Apache-2.0
#include "service/protocol/narrow_float.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>

namespace sluice::service {
namespace {

/// A binary format of 16 bits with a sign, an exponent and a mantissa, as IEEE 754 lays them out.
struct format {
  int mantissa_bits;
  int min_exponent;  ///< of the smallest normal number, as std::frexp states it
  std::uint16_t infinity;
};
constexpr format fp16{.mantissa_bits = 10, .min_exponent = -13, .infinity = 0x7c00};
constexpr format bf16{.mantissa_bits = 7, .min_exponent = -125, .infinity = 0x7f80};

[[nodiscard]] std::uint16_t narrowed(double value, const format& target) noexcept {
  const std::uint16_t sign = std::signbit(value) ? 0x8000 : 0;
  const double magnitude = std::fabs(value);
  if (magnitude == 0) return sign;  // frexp gives it an exponent of 0
  int exponent = 0;
  (void)std::frexp(magnitude, &exponent);
  exponent = std::max(exponent, target.min_exponent);
  const double significand =
      std::nearbyint(std::ldexp(magnitude, target.mantissa_bits + 1 - exponent));
  // The leading bit of a normal significand adds one to the exponent field, which is the field of
  // min_exponent. Subnormal numbers lack it. A carry out of the mantissa moves to the exponent.
  const double bits =
      std::ldexp(exponent - target.min_exponent, target.mantissa_bits) + significand;
  const double limited = std::min<double>(bits, target.infinity);
  return static_cast<std::uint16_t>(sign | static_cast<unsigned>(limited));
}

}  // namespace

std::uint16_t to_fp16(double value) noexcept {
  return narrowed(value, fp16);
}
std::uint16_t to_bf16(double value) noexcept {
  return narrowed(value, bf16);
}

float from_fp16(std::uint16_t bits) noexcept {
  const int exponent = (bits >> 10) & 0x1f;
  const int mantissa = bits & 0x3ff;
  float magnitude = 0;
  if (exponent == 0x1f) {
    magnitude = mantissa == 0 ? std::numeric_limits<float>::infinity()
                              : std::numeric_limits<float>::quiet_NaN();
  } else if (exponent == 0) {
    magnitude = std::ldexp(static_cast<float>(mantissa), -24);
  } else {
    magnitude = std::ldexp(static_cast<float>(mantissa + 0x400), exponent - 25);
  }
  return (bits & 0x8000) != 0 ? -magnitude : magnitude;
}

float from_bf16(std::uint16_t bits) noexcept {
  return std::bit_cast<float>(std::uint32_t{bits} << 16U);
}

}  // namespace sluice::service
