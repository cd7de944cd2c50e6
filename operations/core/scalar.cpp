// SPDX-License-Identifier: Apache-2.0
#include "operations/elementwise/storage.hpp"

#include <sluice/operations/scalar.hpp>
#include <sluice/runtime/error.hpp>

#include <array>
#include <charconv>
#include <cmath>
#include <limits>

namespace sluice {
namespace {

[[noreturn]] void refuse(std::string_view argument, const scalar& value, const char* description) {
  throw error(errc::invalid_argument,
              std::string(argument) + ": " + value.text() + " " + description);
}

void require_number(std::string_view argument, const scalar& value) {
  if (!value.is_of_program()) return;
  throw error(errc::invalid_argument,
              std::string(argument) +
                  ": is a scalar of a program, which only a step of that program takes, in a "
                  "parameter that its operation names in members()");
}

std::string digits(double value) {
  std::array<char, 32> text{};
  const auto end = std::to_chars(text.data(), text.data() + text.size(), value).ptr;
  return {text.data(), end};
}

/// Rounds a part of `whole` to `T`.
template <class T>
T round_to(double part, std::string_view argument, const scalar& whole) {
  if (!std::isfinite(part)) refuse(argument, whole, "is not finite");
  const auto rounded = static_cast<T>(part);
  if (!std::isfinite(rounded)) refuse(argument, whole, "is out of the range of f32");
  return rounded;
}

void require_integer(double real, double imaginary, std::string_view argument,
                     const scalar& whole) {
  if (!std::isfinite(real) || std::trunc(real) != real || imaginary != 0) {
    refuse(argument, whole, "is not an integer");
  }
}

}  // namespace

std::optional<double> scalar::non_finite() const noexcept {
  if (kind_ != kind::real || std::isfinite(real_)) return std::nullopt;
  return real_;
}

bool scalar::is_zero() const noexcept {
  return integer_ == 0 && real_ == 0 && imaginary_ == 0;
}

std::string scalar::text() const {
  switch (kind_) {
    case kind::signed_integer:
      return std::to_string(static_cast<std::int64_t>(integer_));
    case kind::unsigned_integer:
      return std::to_string(integer_);
    case kind::real:
      return digits(real_);
    case kind::complex:
      return digits(real_) + (std::signbit(imaginary_) ? "" : "+") + digits(imaginary_) + "i";
    case kind::of_program:
      return "scalar " + std::to_string(number_) + " of a program";
  }
  return {};
}

template <>
std::complex<double> scalar::to<std::complex<double>>(std::string_view argument) const {
  require_number(argument, *this);
  if (kind_ == kind::signed_integer)
    return static_cast<double>(static_cast<std::int64_t>(integer_));
  if (kind_ == kind::unsigned_integer) return static_cast<double>(integer_);
  return {round_to<double>(real_, argument, *this), round_to<double>(imaginary_, argument, *this)};
}

template <>
std::complex<float> scalar::to<std::complex<float>>(std::string_view argument) const {
  require_number(argument, *this);
  if (kind_ == kind::signed_integer) return static_cast<float>(static_cast<std::int64_t>(integer_));
  if (kind_ == kind::unsigned_integer) return static_cast<float>(integer_);
  return {round_to<float>(real_, argument, *this), round_to<float>(imaginary_, argument, *this)};
}

template <>
double scalar::to<double>(std::string_view argument) const {
  const auto value = to<std::complex<double>>(argument);
  if (value.imag() != 0) refuse(argument, *this, "has an imaginary part, but must be real");
  return value.real();
}

template <>
float scalar::to<float>(std::string_view argument) const {
  const auto value = to<std::complex<float>>(argument);
  if (imaginary_ != 0) refuse(argument, *this, "has an imaginary part, but must be real");
  return value.real();
}

/// The nearest number of a type of 8 or 16 bits; infinite or NaN if that is out of its range.
template <class T>
T rounded_to(float value) {
  if constexpr (sizeof(T) == 1) {
    return T::unsaturated(value);
  } else {
    return T(value);
  }
}

template <class T>
T scalar::to_short(std::string_view argument, const char* range) const {
  using operations::rounded_to_odd;
  require_number(argument, *this);
  float wide = 0;
  if (kind_ == kind::signed_integer) {
    wide = rounded_to_odd(static_cast<std::int64_t>(integer_));
  } else if (kind_ == kind::unsigned_integer) {
    wide = rounded_to_odd(integer_);
  } else {
    wide = rounded_to_odd(to<double>(argument));
  }
  const auto rounded = rounded_to<T>(wide);
  if (!std::isfinite(static_cast<float>(rounded))) refuse(argument, *this, range);
  return rounded;
}

template <>
f16 scalar::to<f16>(std::string_view argument) const {
  return to_short<f16>(argument, "is out of the range of f16");
}

template <>
bf16 scalar::to<bf16>(std::string_view argument) const {
  return to_short<bf16>(argument, "is out of the range of bf16");
}

template <>
e4m3 scalar::to<e4m3>(std::string_view argument) const {
  return to_short<e4m3>(argument, "is out of the range of e4m3");
}

template <>
e5m2 scalar::to<e5m2>(std::string_view argument) const {
  return to_short<e5m2>(argument, "is out of the range of e5m2");
}

template <>
std::int64_t scalar::to<std::int64_t>(std::string_view argument) const {
  require_number(argument, *this);
  if (kind_ == kind::signed_integer) return static_cast<std::int64_t>(integer_);
  if (kind_ == kind::unsigned_integer) {
    if (integer_ >> 63U != 0) refuse(argument, *this, "is out of the range of i64");
    return static_cast<std::int64_t>(integer_);
  }
  require_integer(real_, imaginary_, argument, *this);
  if (real_ < -0x1p63 || real_ >= 0x1p63) refuse(argument, *this, "is out of the range of i64");
  return static_cast<std::int64_t>(real_);
}

template <>
std::uint64_t scalar::to<std::uint64_t>(std::string_view argument) const {
  require_number(argument, *this);
  if (kind_ == kind::unsigned_integer) return integer_;
  if (kind_ == kind::signed_integer) {
    if (integer_ >> 63U != 0) refuse(argument, *this, "is negative");
    return integer_;
  }
  require_integer(real_, imaginary_, argument, *this);
  if (real_ < 0) refuse(argument, *this, "is negative");
  if (real_ >= 0x1p64) refuse(argument, *this, "is out of the range of u64");
  return static_cast<std::uint64_t>(real_);
}

}  // namespace sluice
