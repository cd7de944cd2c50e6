// SPDX-License-Identifier: Apache-2.0
#include "operations/core/element_value.hpp"

#include <sluice/runtime/error.hpp>

#include <cmath>
#include <complex>
#include <cstring>
#include <limits>
#include <string>

namespace sluice::operations {
namespace {

template <class T>
element_bytes bytes_of_value(const T& value) noexcept {
  element_bytes bytes{};
  static_assert(sizeof value <= sizeof bytes);
  std::memcpy(bytes.data(), &value, sizeof value);
  return bytes;
}

[[noreturn]] void refuse_range(const scalar& value, element_type type, std::string_view argument) {
  throw invalid_argument(argument,
                         value.text() + " is out of the range of " + std::string(to_string(type)));
}

template <class T>
element_bytes small_integer(const scalar& value, element_type type, std::string_view argument) {
  const auto number = value.to<std::int64_t>(argument);
  if (number < std::numeric_limits<T>::min() || number > std::numeric_limits<T>::max()) {
    refuse_range(value, type, argument);
  }
  return bytes_of_value(static_cast<T>(number));
}

/// A number of a floating-point type, which has NaN, and all but e4m3 infinities.
template <class T>
element_bytes floating_point(const scalar& value, std::string_view argument) {
  const auto special = value.non_finite();
  if (!special) return bytes_of_value(value.to<T>(argument));
  const auto number = static_cast<float>(*special);
  if constexpr (sizeof(T) == 1) {
    return bytes_of_value(T::unsaturated(number));
  } else {
    return bytes_of_value(static_cast<T>(number));
  }
}

}  // namespace

element_bytes element_value(const scalar& value, element_type type, std::string_view argument) {
  switch (type) {
    case element_type::boolean: {
      const auto number = value.to<std::int64_t>(argument);
      if (number != 0 && number != 1) refuse_range(value, type, argument);
      return bytes_of_value(static_cast<std::uint8_t>(number));
    }
    case element_type::u8:
      return small_integer<std::uint8_t>(value, type, argument);
    case element_type::i8:
      return small_integer<std::int8_t>(value, type, argument);
    case element_type::u16:
      return small_integer<std::uint16_t>(value, type, argument);
    case element_type::i16:
      return small_integer<std::int16_t>(value, type, argument);
    case element_type::i32:
      return small_integer<std::int32_t>(value, type, argument);
    case element_type::u32:
      return small_integer<std::uint32_t>(value, type, argument);
    case element_type::i64:
      return bytes_of_value(value.to<std::int64_t>(argument));
    case element_type::u64:
      return bytes_of_value(value.to<std::uint64_t>(argument));
    case element_type::e4m3:
      if (value.non_finite() && !std::isnan(*value.non_finite())) {
        refuse_range(value, type, argument);
      }
      return floating_point<e4m3>(value, argument);
    case element_type::e5m2:
      return floating_point<e5m2>(value, argument);
    case element_type::f16:
      return floating_point<f16>(value, argument);
    case element_type::bf16:
      return floating_point<bf16>(value, argument);
    case element_type::f32:
      return floating_point<float>(value, argument);
    case element_type::f64:
      return floating_point<double>(value, argument);
    case element_type::c64:
      return bytes_of_value(value.to<std::complex<float>>(argument));
    case element_type::c128:
      return bytes_of_value(value.to<std::complex<double>>(argument));
  }
  return {};
}

}  // namespace sluice::operations
