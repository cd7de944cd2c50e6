// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sluice/runtime/float16.hpp>
#include <sluice/runtime/float8.hpp>

#include <complex>
#include <cstddef>
#include <cstdint>
#include <string_view>

namespace sluice {

/// The element types that sluice moves and computes with.
///
/// A name gives the width in bits, as in NumPy: c64 consists of two f32. `boolean` is a byte.
/// Code that writes or imports such memory must store only the values 0 and 1. The types of 8 bits
/// e4m3 and e5m2 are named by their bits of exponent and fraction. Operations move and convert
/// them, and `scaled_gemm` multiplies matrices of them.
enum class element_type : std::uint8_t {
  boolean,
  u8,
  i8,
  u16,
  i16,
  i32,
  u32,
  i64,
  u64,
  e4m3,
  e5m2,
  f16,
  bf16,
  f32,
  f64,
  c64,
  c128
};

/// The size of one element in bytes.
[[nodiscard]] constexpr std::size_t size_of(element_type type) noexcept {
  switch (type) {
    case element_type::boolean:
    case element_type::u8:
    case element_type::i8:
    case element_type::e4m3:
    case element_type::e5m2:
      return 1;
    case element_type::u16:
    case element_type::i16:
    case element_type::f16:
    case element_type::bf16:
      return 2;
    case element_type::i32:
    case element_type::u32:
    case element_type::f32:
      return 4;
    case element_type::i64:
    case element_type::u64:
    case element_type::f64:
    case element_type::c64:
      return 8;
    case element_type::c128:
      return 16;
  }
  return 0;
}

/// The short name: "f32", "c128".
[[nodiscard]] constexpr std::string_view to_string(element_type type) noexcept {
  switch (type) {
    case element_type::boolean:
      return "bool";
    case element_type::u8:
      return "u8";
    case element_type::i8:
      return "i8";
    case element_type::u16:
      return "u16";
    case element_type::i16:
      return "i16";
    case element_type::i32:
      return "i32";
    case element_type::u32:
      return "u32";
    case element_type::i64:
      return "i64";
    case element_type::u64:
      return "u64";
    case element_type::e4m3:
      return "e4m3";
    case element_type::e5m2:
      return "e5m2";
    case element_type::f16:
      return "f16";
    case element_type::bf16:
      return "bf16";
    case element_type::f32:
      return "f32";
    case element_type::f64:
      return "f64";
    case element_type::c64:
      return "c64";
    case element_type::c128:
      return "c128";
  }
  return "unknown";
}

/// Maps a C++ type to its `element_type`. Defined for exactly the types above.
template <class T>
struct element_type_of;
template <>
struct element_type_of<bool> {
  static constexpr auto value = element_type::boolean;
};
template <>
struct element_type_of<std::uint8_t> {
  static constexpr auto value = element_type::u8;
};
template <>
struct element_type_of<std::int8_t> {
  static constexpr auto value = element_type::i8;
};
template <>
struct element_type_of<std::uint16_t> {
  static constexpr auto value = element_type::u16;
};
template <>
struct element_type_of<std::int16_t> {
  static constexpr auto value = element_type::i16;
};
template <>
struct element_type_of<std::int32_t> {
  static constexpr auto value = element_type::i32;
};
template <>
struct element_type_of<std::uint32_t> {
  static constexpr auto value = element_type::u32;
};
template <>
struct element_type_of<std::int64_t> {
  static constexpr auto value = element_type::i64;
};
template <>
struct element_type_of<std::uint64_t> {
  static constexpr auto value = element_type::u64;
};
template <>
struct element_type_of<e4m3> {
  static constexpr auto value = element_type::e4m3;
};
template <>
struct element_type_of<e5m2> {
  static constexpr auto value = element_type::e5m2;
};
template <>
struct element_type_of<f16> {
  static constexpr auto value = element_type::f16;
};
template <>
struct element_type_of<bf16> {
  static constexpr auto value = element_type::bf16;
};
template <>
struct element_type_of<float> {
  static constexpr auto value = element_type::f32;
};
template <>
struct element_type_of<double> {
  static constexpr auto value = element_type::f64;
};
template <>
struct element_type_of<std::complex<float>> {
  static constexpr auto value = element_type::c64;
};
template <>
struct element_type_of<std::complex<double>> {
  static constexpr auto value = element_type::c128;
};

/// The `element_type` of `T`.
template <class T>
inline constexpr element_type element_type_v = element_type_of<T>::value;

/// A C++ type whose values device memory may hold as elements.
template <class T>
concept element = requires {
  element_type_of<T>::value;
};

}  // namespace sluice
