// SPDX-License-Identifier: Apache-2.0
#include "tools/sluice/bench/service/input_value.hpp"

#include "service/protocol/narrow_float.hpp"
#include "tools/sluice/option_values.hpp"

#include <sluice/runtime/error.hpp>

#include <fmt/format.h>

#include <cmath>
#include <cstdint>
#include <limits>

namespace sluice::cli {

namespace {

using service::datatype;

template <class T>
std::string bytes_of(T value) {
  return {reinterpret_cast<const char*>(&value), sizeof value};
}

template <class T>
std::string integer_bytes(const std::string& option, const std::string& text,
                          std::int64_t smallest = std::numeric_limits<T>::min(),
                          std::int64_t largest = std::numeric_limits<T>::max()) {
  return bytes_of(static_cast<T>(parse_integer(option, text, smallest, largest)));
}

/// The bytes, unless the element is infinite: a number beyond the range of the type.
template <class T>
std::string finite_bytes(const std::string& option, const std::string& text, T bits, float value) {
  if (std::isfinite(value)) return bytes_of(bits);
  throw error(errc::invalid_argument,
              fmt::format("{}: {} is beyond the range of the type", option, text));
}

}  // namespace

std::string element_bytes(const std::string& option, const std::string& text, datatype type) {
  switch (type) {
    case datatype::boolean:
      return integer_bytes<std::uint8_t>(option, text, 0, 1);
    case datatype::uint8:
      return integer_bytes<std::uint8_t>(option, text);
    case datatype::uint16:
      return integer_bytes<std::uint16_t>(option, text);
    case datatype::uint32:
      return integer_bytes<std::uint32_t>(option, text);
    case datatype::uint64:
      return bytes_of(parse_unsigned(option, text));
    case datatype::int8:
      return integer_bytes<std::int8_t>(option, text, -128, 127);
    case datatype::int16:
      return integer_bytes<std::int16_t>(option, text);
    case datatype::int32:
      return integer_bytes<std::int32_t>(option, text);
    case datatype::int64:
      return integer_bytes<std::int64_t>(option, text);
    default:
      break;
  }
  const double value = parse_finite(option, text);
  if (type == datatype::fp64) return bytes_of(value);
  if (type == datatype::fp32) {
    // A conversion beyond the range is undefined.
    const bool fits = std::abs(value) <= double{std::numeric_limits<float>::max()};
    const float element = fits ? static_cast<float>(value) : std::numeric_limits<float>::infinity();
    return finite_bytes(option, text, element, element);
  }
  const bool is_half = type == datatype::fp16;
  const auto bits = is_half ? service::to_fp16(value) : service::to_bf16(value);
  return finite_bytes(option, text, bits,
                      is_half ? service::from_fp16(bits) : service::from_bf16(bits));
}

}  // namespace sluice::cli
