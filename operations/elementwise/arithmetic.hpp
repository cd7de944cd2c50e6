// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "operations/elementwise/storage.hpp"

#include <sluice/host_device_code.hpp>

#include <cmath>
#include <cstdint>
#include <limits>
#include <type_traits>

// Arithmetic of the compute types, for both devices. Without contraction into fma, it gives the
// same bits on both. Kernels include this header, so it compiles as C++17.
namespace sluice::operations {

/// The type in which numbers of a compute type are added and multiplied: integers wrap around.
template <class T>
using ring = std::conditional_t<std::is_same_v<T, std::int64_t>, std::uint64_t, T>;

/// Sums, differences and products of numbers. Integers wrap around.
///@{
template <class T>
[[nodiscard]] SLUICE_HOST_DEVICE inline T sum(T a, T b) noexcept {
  if constexpr (is_complex_v<T>) {
    return {a.real + b.real, a.imaginary + b.imaginary};
  } else {
    return static_cast<T>(static_cast<ring<T>>(a) + static_cast<ring<T>>(b));
  }
}
template <class T>
[[nodiscard]] SLUICE_HOST_DEVICE inline T difference(T a, T b) noexcept {
  if constexpr (is_complex_v<T>) {
    return {a.real - b.real, a.imaginary - b.imaginary};
  } else {
    return static_cast<T>(static_cast<ring<T>>(a) - static_cast<ring<T>>(b));
  }
}
template <class T>
[[nodiscard]] SLUICE_HOST_DEVICE inline T product(T a, T b) noexcept {
  if constexpr (is_complex_v<T>) {
    return {a.real * b.real - a.imaginary * b.imaginary,
            a.real * b.imaginary + a.imaginary * b.real};
  } else {
    return static_cast<T>(static_cast<ring<T>>(a) * static_cast<ring<T>>(b));
  }
}
///@}

/// Whether a number is below 0.
template <class T>
[[nodiscard]] SLUICE_HOST_DEVICE inline bool is_negative([[maybe_unused]] T x) noexcept {
  if constexpr (std::is_unsigned_v<T>) {
    return false;
  } else {
    return x < T(0);
  }
}

/// The larger of two numbers: NaN if one is NaN, and +0 is larger than -0. Associative and
/// commutative, so that a maximum is the same however it is cut into parts.
template <class T>
[[nodiscard]] SLUICE_HOST_DEVICE inline T larger(T a, T b) noexcept {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
  if constexpr (std::is_same_v<T, float>) {
    float result;
    asm("max.NaN.f32 %0, %1, %2;" : "=f"(result) : "f"(a), "f"(b));
    return result;
  }
#endif
  if (a > b) return a;
  if (b > a) return b;
  if constexpr (std::is_floating_point_v<T>) {
    if (a != a || b != b) return static_cast<T>(NAN);
    if (a == T(0)) return a + b;
  }
  return a;
}

/// The smaller of two numbers: NaN if one is NaN, and -0 is smaller than +0.
template <class T>
[[nodiscard]] SLUICE_HOST_DEVICE inline T smaller(T a, T b) noexcept {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
  if constexpr (std::is_same_v<T, float>) {
    float result;
    asm("min.NaN.f32 %0, %1, %2;" : "=f"(result) : "f"(a), "f"(b));
    return result;
  }
#endif
  if (a < b) return a;
  if (b < a) return b;
  if constexpr (std::is_floating_point_v<T>) {
    if (a != a || b != b) return static_cast<T>(NAN);
    if (a == T(0)) return -(-a + -b);
  }
  return a;
}

/// The quotient of two numbers; that of integers is truncated toward zero, and 0 if b is 0. The
/// quotient of complex numbers is that of Smith ("Algorithm 116: complex division", 1962), which
/// does not overflow where the result does not.
template <class T>
[[nodiscard]] SLUICE_HOST_DEVICE inline T ratio(T a, T b) noexcept {
  if constexpr (is_complex_v<T>) {
    using part = typename T::value_type;
    const bool is_wide =
        (b.real < 0 ? -b.real : b.real) >= (b.imaginary < 0 ? -b.imaginary : b.imaginary);
    const part large = is_wide ? b.real : b.imaginary;
    const part small = is_wide ? b.imaginary : b.real;
    const part slope = large == 0 ? part(0) : small / large;
    const part scale = large + small * slope;
    if (is_wide) {
      return {(a.real + a.imaginary * slope) / scale, (a.imaginary - a.real * slope) / scale};
    }
    return {(a.real * slope + a.imaginary) / scale, (a.imaginary * slope - a.real) / scale};
  } else if constexpr (std::is_integral_v<T>) {
    if (b == 0) return 0;
    // The quotient of the smallest integer and -1 overflows.
    if (std::is_signed_v<T> && b == static_cast<T>(-1)) return difference(T(0), a);
    return a / b;
  } else {
    return a / b;
  }
}

/// a - b · trunc(a / b); of integers, 0 if b is 0.
template <class T>
[[nodiscard]] SLUICE_HOST_DEVICE inline T truncated_remainder(T a, T b) noexcept {
  if constexpr (std::is_integral_v<T>) {
    if (b == 0 || (std::is_signed_v<T> && b == static_cast<T>(-1))) return 0;
    return a % b;
  } else {
    return std::fmod(a, b);
  }
}

/// a - b · floor(a / b), with the sign of b; of integers, 0 if b is 0.
template <class T>
[[nodiscard]] SLUICE_HOST_DEVICE inline T floored_remainder(T a, T b) noexcept {
  const T rest = truncated_remainder(a, b);
  if constexpr (std::is_floating_point_v<T>) {
    if (rest == T(0)) return std::copysign(T(0), b);
  }
  return rest != T(0) && is_negative(rest) != is_negative(b) ? sum(rest, b) : rest;
}

/// a to the power of b. Integers with a negative b: 0, unless a is 1 or -1.
template <class T>
[[nodiscard]] SLUICE_HOST_DEVICE inline T raised(T a, T b) noexcept {
  if constexpr (std::is_integral_v<T>) {
    if (is_negative(b) && a != 1 && a != static_cast<T>(-1)) return 0;
    // The powers of 1 and -1 depend on the last bit of b.
    auto exponent =
        is_negative(b) ? static_cast<std::uint64_t>(b) & 1U : static_cast<std::uint64_t>(b);
    T result = 1;
    for (; exponent != 0; exponent >>= 1U, a = product(a, a)) {
      if ((exponent & 1U) != 0) result = product(result, a);
    }
    return result;
  } else {
    return std::pow(a, b);
  }
}

/// a · 2^b and ⌊a / 2^b⌋. A b below 0 or above 63 shifts all bits out.
///@{
template <class T>
[[nodiscard]] SLUICE_HOST_DEVICE inline T shifted_left(T a, T b) noexcept {
  const auto distance = static_cast<std::uint64_t>(b);
  return distance > 63 ? T(0) : static_cast<T>(static_cast<std::uint64_t>(a) << distance);
}
template <class T>
[[nodiscard]] SLUICE_HOST_DEVICE inline T shifted_right(T a, T b) noexcept {
  const auto distance = static_cast<std::uint64_t>(b);
  return distance > 63 ? (is_negative(a) ? static_cast<T>(-1) : T(0))
                       : static_cast<T>(a >> distance);
}
///@}

}  // namespace sluice::operations
