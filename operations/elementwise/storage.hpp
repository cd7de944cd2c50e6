// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sluice/host_device_code.hpp>
#include <sluice/runtime/float16.hpp>
#include <sluice/runtime/float8.hpp>

#include <cstdint>
#include <limits>
#include <type_traits>

// How elements lie in memory, and how they become numbers to compute with. Kernels include this
// header, so it compiles as C++17.
namespace sluice::operations {

/// The element types, with the values of `element_type`, which kernels cannot see.
enum class storage : std::uint8_t {
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

/// The size of an element in bytes.
[[nodiscard]] SLUICE_HOST_DEVICE constexpr int bytes_of(storage type) noexcept {
  switch (type) {
    case storage::boolean:
    case storage::u8:
    case storage::i8:
    case storage::e4m3:
    case storage::e5m2:
      return 1;
    case storage::u16:
    case storage::i16:
    case storage::f16:
    case storage::bf16:
      return 2;
    case storage::i32:
    case storage::u32:
    case storage::f32:
      return 4;
    case storage::c128:
      return 16;
    default:
      return 8;
  }
}

/// A complex number in memory and in registers.
template <class Real>
struct alignas(2 * sizeof(Real)) complex_number {
  using value_type = Real;
  Real real = 0;
  Real imaginary = 0;
};

template <class T>
inline constexpr bool is_complex_v = std::is_class_v<T>;

/// The type in which numbers of a storage type are computed without loss.
enum class compute_type : std::uint8_t { i64, u64, f32, f64, c64, c128 };

[[nodiscard]] constexpr compute_type compute_type_of(storage type) noexcept {
  switch (type) {
    case storage::u64:
      return compute_type::u64;
    case storage::e4m3:
    case storage::e5m2:
    case storage::f16:
    case storage::bf16:
    case storage::f32:
      return compute_type::f32;
    case storage::f64:
      return compute_type::f64;
    case storage::c64:
      return compute_type::c64;
    case storage::c128:
      return compute_type::c128;
    default:
      return compute_type::i64;
  }
}

/// The limits of arithmetic types as constants: kernels cannot call the functions of the standard
/// library that tell them.
///@{
template <class T>
inline constexpr T lowest_v = std::numeric_limits<T>::lowest();
template <class T>
inline constexpr T highest_v = std::numeric_limits<T>::max();
///@}

/// What happens to numbers beyond the range of the type in which they are stored. Only integers
/// wrap, and only numbers of 8 bits become infinite, or NaN where there are no infinities; others
/// saturate. Floating-point numbers of more bits always become infinite.
enum class overflow { saturates, wraps, becomes_infinite };

/// An integer or a real number as the integer type `To`. Real numbers are truncated toward zero,
/// and NaN becomes 0.
template <class To, overflow Overflow, class From>
[[nodiscard]] SLUICE_HOST_DEVICE inline To to_integer(From value) noexcept {
  constexpr To lowest = lowest_v<To>;
  constexpr To highest = highest_v<To>;
  if constexpr (std::is_floating_point_v<From>) {
    // The least number above all of `To` is a power of two, and so exact.
    constexpr To half = highest / 2 + 1;
    constexpr From limit = static_cast<From>(half) * From(2);
    if (value != value) return 0;
    if (value >= limit) return highest;
    if (value <= static_cast<From>(lowest)) return lowest;
    return static_cast<To>(value);
  } else if constexpr (Overflow == overflow::wraps) {
    return static_cast<To>(value);
  } else {
    if constexpr (std::is_signed_v<From>) {
      if constexpr (std::is_signed_v<To>) {
        if (value < static_cast<std::int64_t>(lowest)) return lowest;
      } else {
        if (value < 0) return 0;
      }
      if (value > 0 && static_cast<std::uint64_t>(value) > static_cast<std::uint64_t>(highest)) {
        return highest;
      }
    } else {
      if (value > static_cast<std::uint64_t>(highest)) return highest;
    }
    return static_cast<To>(value);
  }
}

/// A number as an f32 from which rounding to a type of 8 or 16 bits gives the value nearest to the
/// number: an inexact f32 gets an odd last bit, so that it is never taken for a tie.
///@{
[[nodiscard]] SLUICE_HOST_DEVICE inline float rounded_to_odd(float value) noexcept {
  return value;
}
[[nodiscard]] SLUICE_HOST_DEVICE inline float rounded_to_odd(double value) noexcept {
  const double magnitude = value < 0 ? -value : value;
  constexpr double largest = 3.4028234663852886e38;  // of f32
  if (magnitude > largest && magnitude <= highest_v<double>) {
    return static_cast<float>(value < 0 ? -largest : largest);
  }
  const auto nearest = static_cast<float>(value);
  const auto back = static_cast<double>(nearest);
  if (back == value || value != value) return nearest;
  auto bits = detail::bits_of(nearest);
  if ((back < 0 ? -back : back) > magnitude) --bits;
  return detail::float_of(bits | 1U);
}
[[nodiscard]] SLUICE_HOST_DEVICE inline float rounded_to_odd(std::uint64_t value) noexcept {
  float unit = 1;
  while (value >> 24U != 0) {
    value = (value >> 1U) | (value & 1U);
    unit *= 2;
  }
  return static_cast<float>(value) * unit;
}
[[nodiscard]] SLUICE_HOST_DEVICE inline float rounded_to_odd(std::int64_t value) noexcept {
  if (value >= 0) return rounded_to_odd(static_cast<std::uint64_t>(value));
  return -rounded_to_odd(~static_cast<std::uint64_t>(value) + 1U);
}
///@}

/// Conversions between f16 and f32, for which GPUs have instructions.
///@{
[[nodiscard]] SLUICE_HOST_DEVICE inline float f32_of(f16 x) noexcept {
#if defined(__CUDA_ARCH__)
  float value;
  asm("cvt.f32.f16 %0, %1;" : "=f"(value) : "h"(x.bits));
  return value;
#else
  return static_cast<float>(x);
#endif
}
[[nodiscard]] SLUICE_HOST_DEVICE inline f16 f16_of(float value) noexcept {
#if defined(__CUDA_ARCH__)
  f16 x;
  asm("cvt.rn.f16.f32 %0, %1;" : "=h"(x.bits) : "f"(value));
  return x;
#else
  return f16(value);
#endif
}
///@}

/// An f32 as a number of 8 bits.
template <class T, overflow Overflow>
[[nodiscard]] SLUICE_HOST_DEVICE inline T float8_of(float value) noexcept {
  return Overflow == overflow::becomes_infinite ? T::unsaturated(value) : T(value);
}

/// Reads or writes element `i` of memory of type `T`.
///@{
template <class T>
[[nodiscard]] SLUICE_HOST_DEVICE inline T element_at(const void* memory, std::int64_t i) noexcept {
  return static_cast<const T*>(memory)[i];
}
template <class T>
SLUICE_HOST_DEVICE inline void put_element(void* memory, std::int64_t i, T value) noexcept {
  static_cast<T*>(memory)[i] = value;
}
///@}

/// Element `i` of memory of a type, as the compute type `T`. Integers take integer types but u64,
/// u64 takes u64, real numbers take all types that are not complex, and complex numbers take
/// complex types of at most their size.
template <class T>
[[nodiscard]] SLUICE_HOST_DEVICE inline T load(storage type, const void* source,
                                               std::int64_t i) noexcept {
  if constexpr (is_complex_v<T>) {
    using part = typename T::value_type;
    if (sizeof(T) == 16 && type == storage::c64) {
      const auto z = element_at<complex_number<float>>(source, i);
      return {static_cast<part>(z.real), static_cast<part>(z.imaginary)};
    }
    return element_at<T>(source, i);
  } else if constexpr (std::is_same_v<T, std::uint64_t>) {
    return element_at<std::uint64_t>(source, i);
  } else {
    if constexpr (std::is_floating_point_v<T>) {
      switch (type) {
        case storage::u64:
          return static_cast<T>(element_at<std::uint64_t>(source, i));
        case storage::e4m3:
          return static_cast<T>(static_cast<float>(element_at<e4m3>(source, i)));
        case storage::e5m2:
          return static_cast<T>(static_cast<float>(element_at<e5m2>(source, i)));
        case storage::f16:
          return static_cast<T>(f32_of(element_at<f16>(source, i)));
        case storage::bf16:
          return static_cast<T>(static_cast<float>(element_at<bf16>(source, i)));
        case storage::f32:
          return static_cast<T>(element_at<float>(source, i));
        case storage::f64:
          return static_cast<T>(element_at<double>(source, i));
        default:
          break;
      }
    }
    switch (type) {
      case storage::boolean:
        return element_at<std::uint8_t>(source, i) != 0 ? T(1) : T(0);
      case storage::u8:
        return static_cast<T>(element_at<std::uint8_t>(source, i));
      case storage::i8:
        return static_cast<T>(element_at<std::int8_t>(source, i));
      case storage::u16:
        return static_cast<T>(element_at<std::uint16_t>(source, i));
      case storage::i16:
        return static_cast<T>(element_at<std::int16_t>(source, i));
      case storage::i32:
        return static_cast<T>(element_at<std::int32_t>(source, i));
      case storage::u32:
        return static_cast<T>(element_at<std::uint32_t>(source, i));
      case storage::i64:
        return static_cast<T>(element_at<std::int64_t>(source, i));
      default:
        return T(0);
    }
  }
}

/// Stores a number of a compute type as element `i` of memory of a type, rounded once to the
/// nearest value. Complex numbers are stored as complex numbers only.
template <overflow Overflow, class T>
SLUICE_HOST_DEVICE inline void store(storage type, void* target, std::int64_t i, T value) noexcept {
  if constexpr (is_complex_v<T>) {
    if (type == storage::c64) {
      put_element(target, i,
                  complex_number<float>{static_cast<float>(value.real),
                                        static_cast<float>(value.imaginary)});
    } else if (type == storage::c128) {
      put_element(target, i, complex_number<double>{value.real, value.imaginary});
    } else {
      put_element<std::uint8_t>(target, i, value.real != 0 || value.imaginary != 0 ? 1 : 0);
    }
  } else {
    switch (type) {
      case storage::boolean:
        return put_element<std::uint8_t>(target, i, value != T(0) ? 1 : 0);
      case storage::u8:
        return put_element(target, i, to_integer<std::uint8_t, Overflow>(value));
      case storage::i8:
        return put_element(target, i, to_integer<std::int8_t, Overflow>(value));
      case storage::u16:
        return put_element(target, i, to_integer<std::uint16_t, Overflow>(value));
      case storage::i16:
        return put_element(target, i, to_integer<std::int16_t, Overflow>(value));
      case storage::i32:
        return put_element(target, i, to_integer<std::int32_t, Overflow>(value));
      case storage::u32:
        return put_element(target, i, to_integer<std::uint32_t, Overflow>(value));
      case storage::i64:
        return put_element(target, i, to_integer<std::int64_t, Overflow>(value));
      case storage::u64:
        return put_element(target, i, to_integer<std::uint64_t, Overflow>(value));
      case storage::e4m3:
        return put_element(target, i, float8_of<e4m3, Overflow>(rounded_to_odd(value)));
      case storage::e5m2:
        return put_element(target, i, float8_of<e5m2, Overflow>(rounded_to_odd(value)));
      case storage::f16:
        return put_element(target, i, f16_of(rounded_to_odd(value)));
      case storage::bf16:
        return put_element(target, i, bf16(rounded_to_odd(value)));
      case storage::f32:
        return put_element(target, i, static_cast<float>(value));
      case storage::f64:
        return put_element(target, i, static_cast<double>(value));
      case storage::c64:
        return put_element(target, i, complex_number<float>{static_cast<float>(value), 0});
      case storage::c128:
        return put_element(target, i, complex_number<double>{static_cast<double>(value), 0});
    }
  }
}

}  // namespace sluice::operations
