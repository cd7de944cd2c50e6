// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sluice/runtime/element_type.hpp>

#include <algorithm>
#include <array>
#include <cmath>
#include <complex>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <limits>
#include <random>
#include <type_traits>

// Elements of all types as numbers, without the arithmetic of the library.
namespace sluice::test {

/// Holds each element of each type exactly.
using number = std::complex<long double>;

/// The types that operations compute with.
inline constexpr std::array computed_element_types{
    element_type::boolean, element_type::u8,  element_type::i8,   element_type::u16,
    element_type::i16,     element_type::i32, element_type::u32,  element_type::i64,
    element_type::u64,     element_type::f16, element_type::bf16, element_type::f32,
    element_type::f64,     element_type::c64, element_type::c128};
/// The types that operations only move and convert.
inline constexpr std::array float8_types{element_type::e4m3, element_type::e5m2};
inline constexpr auto all_element_types = [] {
  std::array<element_type, computed_element_types.size() + float8_types.size()> all{};
  std::copy(computed_element_types.begin(), computed_element_types.end(), all.begin());
  std::copy(float8_types.begin(), float8_types.end(), all.begin() + computed_element_types.size());
  return all;
}();

[[nodiscard]] constexpr bool is_complex_type(element_type type) {
  return type == element_type::c64 || type == element_type::c128;
}
[[nodiscard]] constexpr bool is_float8_type(element_type type) {
  return type == element_type::e4m3 || type == element_type::e5m2;
}
[[nodiscard]] constexpr bool is_floating_type(element_type type) {
  return is_float8_type(type) || (type >= element_type::f16 && type <= element_type::f64);
}

/// Calls `function` with a value of the C++ type of integer elements.
template <class Function>
auto with_integer_type(element_type type, Function&& function) {
  switch (type) {
    case element_type::boolean:
      return function(bool{});
    case element_type::u8:
      return function(std::uint8_t{});
    case element_type::i8:
      return function(std::int8_t{});
    case element_type::u16:
      return function(std::uint16_t{});
    case element_type::i16:
      return function(std::int16_t{});
    case element_type::i32:
      return function(std::int32_t{});
    case element_type::u32:
      return function(std::uint32_t{});
    case element_type::i64:
      return function(std::int64_t{});
    default:
      return function(std::uint64_t{});
  }
}

/// A number with `digits` binary digits and the smallest exponent `least` of normal numbers.
[[nodiscard]] inline long double rounded(long double value, int digits, int least,
                                         long double largest) {
  if (!std::isfinite(value) || value == 0) return value;
  const auto unit = std::ldexp(1.0L, std::max(std::ilogb(value), least) - digits + 1);
  const auto nearest = std::copysign(std::nearbyint(value / unit) * unit, value);
  if (std::abs(nearest) <= largest) return nearest;
  return std::copysign(std::numeric_limits<long double>::infinity(), value);
}

/// A real number as the value of an element of a type, rounded once. e4m3 and e5m2 saturate.
[[nodiscard]] inline long double to_real_type(element_type type, long double value) {
  switch (type) {
    case element_type::e4m3:
      return rounded(std::clamp(value, -448.0L, 448.0L), 4, -6, 448);
    case element_type::e5m2:
      return rounded(std::clamp(value, -57344.0L, 57344.0L), 3, -14, 57344);
    case element_type::f16:
      return rounded(value, 11, -14, 65504);
    case element_type::bf16:
      return rounded(value, 8, -126, 0x1.fep127L);
    case element_type::f32:
    case element_type::c64:
      return rounded(value, 24, -126, std::numeric_limits<float>::max());
    default:
      return rounded(value, 53, -1022, std::numeric_limits<double>::max());
  }
}

/// The number of which `element` holds the bits.
[[nodiscard]] inline number number_at(element_type type, const std::byte* element) {
  const auto bits = [&](auto value) {
    std::memcpy(&value, element, sizeof value);
    return value;
  };
  const auto narrow = [&](int exponent_bits, int fraction_bits) -> long double {
    const auto all = bits(std::uint16_t{});
    const int fraction = all & ((1 << fraction_bits) - 1);
    const int exponent = (all >> fraction_bits) & ((1 << exponent_bits) - 1);
    const int bias = (1 << (exponent_bits - 1)) - 1;
    long double magnitude =
        std::ldexp(static_cast<long double>(fraction), 1 - bias - fraction_bits);
    if (exponent == (1 << exponent_bits) - 1) {
      magnitude = fraction != 0 ? std::numeric_limits<long double>::quiet_NaN()
                                : std::numeric_limits<long double>::infinity();
    } else if (exponent != 0) {
      magnitude = std::ldexp(static_cast<long double>((1 << fraction_bits) + fraction),
                             exponent - bias - fraction_bits);
    }
    return (all & 0x8000) != 0 ? -magnitude : magnitude;
  };
  switch (type) {
    case element_type::e4m3: {
      const auto all = bits(std::uint8_t{});
      const int magnitude = all & 0x7f;
      long double value = std::numeric_limits<long double>::quiet_NaN();
      if (magnitude < 8) {
        value = std::ldexp(static_cast<long double>(magnitude), -9);
      } else if (magnitude < 0x7f) {
        value = std::ldexp(static_cast<long double>(8 + magnitude % 8), magnitude / 8 - 10);
      }
      return (all & 0x80) != 0 ? -value : value;
    }
    case element_type::e5m2: {
      // The upper half of an f16.
      const std::array<std::byte, 2> half{std::byte{0}, *element};
      return number_at(element_type::f16, half.data());
    }
    case element_type::f16:
      return narrow(5, 10);
    case element_type::bf16:
      return narrow(8, 7);
    case element_type::f32:
      return bits(float{});
    case element_type::f64:
      return bits(double{});
    case element_type::c64: {
      const auto z = bits(std::array<float, 2>{});
      return {z[0], z[1]};
    }
    case element_type::c128: {
      const auto z = bits(std::array<double, 2>{});
      return {z[0], z[1]};
    }
    default:
      return with_integer_type(type, [&](auto integer_value) {
        if constexpr (std::is_same_v<decltype(integer_value), bool>) {
          return number(bits(std::uint8_t{}) != 0 ? 1 : 0);
        } else {
          return number(static_cast<long double>(bits(integer_value)));
        }
      });
  }
}

/// Whether two numbers are the same, zeros with their signs; NaN equals NaN.
[[nodiscard]] inline bool same(long double a, long double b) {
  if (std::isnan(a) || std::isnan(b)) return std::isnan(a) && std::isnan(b);
  return a == b && std::signbit(a) == std::signbit(b);
}
[[nodiscard]] inline bool same(const number& a, const number& b) {
  return same(a.real(), b.real()) && same(a.imag(), b.imag());
}

/// How random elements are drawn.
enum class drawn {
  bits,      ///< any bits, with all special values
  numbers,   ///< integers of any value; real numbers in [-1, 1)
  few,       ///< few values: -3 to 3 and some of their halves; 0 to 3 of types without a sign
  wide,      ///< integers of any value; real numbers in [-30, 30)
  positive,  ///< integers of any value; real numbers in [0, 1)
  near_one,  ///< integers of any value; real numbers in [0.9, 1.1)
};

/// Writes a random element to `element`.
inline void draw_element(std::mt19937_64& generator, element_type type, drawn how,
                         std::byte* element) {
  const auto put = [&](auto value) {
    std::memcpy(element, &value, sizeof value);
  };
  const auto uniform = [&] {
    if (how == drawn::few) return 0.5 * static_cast<double>(generator() % 13U) - 3;
    const double largest = how == drawn::wide ? 30 : how == drawn::near_one ? 1.1 : 1;
    const double smallest = how == drawn::positive ? 0 : how == drawn::near_one ? 0.9 : -largest;
    return std::uniform_real_distribution<double>(smallest, largest)(generator);
  };
  if (type == element_type::boolean) return put(static_cast<std::uint8_t>(generator() & 1U));
  if (how != drawn::bits && type == element_type::e4m3) {
    return put(e4m3(static_cast<float>(uniform())));
  }
  if (how != drawn::bits && type == element_type::e5m2) {
    return put(e5m2(static_cast<float>(uniform())));
  }
  if (how == drawn::few && type < element_type::f16) {
    return with_integer_type(type, [&](auto integer) {
      using native = decltype(integer);
      const auto value = static_cast<int>(generator() % 7U) - 3;
      put(static_cast<native>(std::is_signed_v<native> ? value : std::abs(value)));
    });
  }
  if (how != drawn::bits && type >= element_type::f16) {
    switch (type) {
      case element_type::f16:
        return put(f16(static_cast<float>(uniform())));
      case element_type::bf16:
        return put(bf16(static_cast<float>(uniform())));
      case element_type::f32:
        return put(static_cast<float>(uniform()));
      case element_type::f64:
        return put(uniform());
      case element_type::c64:
        return put(std::array{static_cast<float>(uniform()), static_cast<float>(uniform())});
      default:
        return put(std::array{uniform(), uniform()});
    }
  }
  const std::array<std::uint64_t, 2> words{generator(), generator()};
  std::memcpy(element, words.data(), size_of(type));
}

}  // namespace sluice::test
