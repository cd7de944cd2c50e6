// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "operations/elementwise/storage.hpp"

#include <sluice/host_device_code.hpp>

#include <cmath>
#include <cstdint>
#include <type_traits>

// The functions of elements, each written once for both devices. Without contraction into fma, all
// but the logarithm give the same bits on both. Kernels include this header, so it compiles as
// C++17.
namespace sluice {
struct add;
struct subtract;
struct multiply;
struct maximum;
struct minimum;
}  // namespace sluice

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

/// The larger of two numbers: NaN if one is NaN, and +0 is larger than -0. Associative and
/// commutative, so that a maximum is the same however it is cut into parts.
template <class T>
[[nodiscard]] SLUICE_HOST_DEVICE inline T larger(T a, T b) noexcept {
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
  if (a < b) return a;
  if (b < a) return b;
  if constexpr (std::is_floating_point_v<T>) {
    if (a != a || b != b) return static_cast<T>(NAN);
    if (a == T(0)) return -(-a + -b);
  }
  return a;
}

/// Binary operations. `apply` takes each compute type, complex numbers only if `takes_complex`.
namespace functors {

struct add {
  using operation = sluice::add;
  static constexpr const char* name = "add";
  static constexpr bool takes_complex = true;
  template <class T>
  SLUICE_HOST_DEVICE static T apply(T a, T b) noexcept {
    return sum(a, b);
  }
};

struct subtract {
  using operation = sluice::subtract;
  static constexpr const char* name = "subtract";
  static constexpr bool takes_complex = true;
  template <class T>
  SLUICE_HOST_DEVICE static T apply(T a, T b) noexcept {
    return difference(a, b);
  }
};

struct multiply {
  using operation = sluice::multiply;
  static constexpr const char* name = "multiply";
  static constexpr bool takes_complex = true;
  template <class T>
  SLUICE_HOST_DEVICE static T apply(T a, T b) noexcept {
    return product(a, b);
  }
};

struct maximum {
  using operation = sluice::maximum;
  static constexpr const char* name = "maximum";
  static constexpr bool takes_complex = false;
  template <class T>
  SLUICE_HOST_DEVICE static T apply(T a, T b) noexcept {
    return larger(a, b);
  }
};

struct minimum {
  using operation = sluice::minimum;
  static constexpr const char* name = "minimum";
  static constexpr bool takes_complex = false;
  template <class T>
  SLUICE_HOST_DEVICE static T apply(T a, T b) noexcept {
    return smaller(a, b);
  }
};

}  // namespace functors

template <class... Functors>
struct functor_list {};

/// All binary operations.
using binary_functors = functor_list<functors::add, functors::subtract, functors::multiply,
                                     functors::maximum, functors::minimum>;

/// The index of a functor in a list.
template <class Functor, class... Functors>
[[nodiscard]] constexpr std::int64_t index_of(functor_list<Functors...>) noexcept {
  std::int64_t index = 0;
  (void)((std::is_same_v<Functor, Functors> || (++index, false)) || ...);
  return index;
}

/// What most functions of a map have in common.
template <class Argument, class Result = Argument>
struct map_function {
  using argument = Argument;
  using result = Result;
  static constexpr overflow on_overflow = overflow::saturates;
  static constexpr bool types_are_fixed = false;
  static constexpr bool inputs_may_miss = false;
};

/// A binary operation on one compute type.
template <class Functor, class T>
struct binary_function : map_function<T> {
  static constexpr overflow on_overflow = overflow::wraps;
  SLUICE_HOST_DEVICE T operator()(T a, T b) const noexcept { return Functor::apply(a, b); }
};

/// The number itself, which is converted when it is stored.
template <class T>
struct identity : map_function<T> {
  SLUICE_HOST_DEVICE T operator()(T x) const noexcept { return x; }
};

/// The bits of an element.
template <class Bits>
struct copied_bits : map_function<Bits> {
  static constexpr bool types_are_fixed = true;
  SLUICE_HOST_DEVICE Bits operator()(Bits x) const noexcept { return x; }
};

/// x · scale, rounded, + bias, rounded. Without a tensor of them, the factor and the offset stand
/// for scale and bias.
template <class T>
struct scaled_and_shifted : map_function<T> {
  static constexpr bool inputs_may_miss = true;
  scaled_and_shifted(T f, T o) noexcept : factor(f), offset(o) {}
  T factor;
  T offset;
  [[nodiscard]] SLUICE_HOST_DEVICE T missing(int input) const noexcept {
    return input == 1 ? factor : offset;
  }
  SLUICE_HOST_DEVICE T operator()(T x, T scale, T bias) const noexcept { return x * scale + bias; }
};

/// x · factor. A missing x is 0.
template <class T>
struct scaled : map_function<T> {
  static constexpr bool types_are_fixed = true;
  static constexpr bool inputs_may_miss = true;
  explicit scaled(T f) noexcept : factor(f) {}
  T factor;
  [[nodiscard]] SLUICE_HOST_DEVICE T missing(int) const noexcept { return T{}; }
  SLUICE_HOST_DEVICE T operator()(T x) const noexcept {
    return functors::multiply::apply(x, factor);
  }
};

/// |z|².
template <class T>
struct squared_magnitude : map_function<complex_number<T>, T> {
  static constexpr bool types_are_fixed = true;
  SLUICE_HOST_DEVICE T operator()(const complex_number<T>& z) const noexcept {
    return z.real * z.real + z.imaginary * z.imaginary;
  }
};

/// A power in decibels; see `decibel_options`.
template <class T>
struct decibels : map_function<T> {
  static constexpr bool types_are_fixed = true;
  decibels(T smallest, T top_db) noexcept : amin(smallest), floor(-top_db) {}
  T amin;
  T floor;

  /// 10 · log10(max(power, amin)).
  [[nodiscard]] SLUICE_HOST_DEVICE T level(T power) const noexcept {
#if defined(__CUDA_ARCH__)
    return T(10) * ::log10(larger(power, amin));
#else
    return T(10) * std::log10(larger(power, amin));
#endif
  }
  SLUICE_HOST_DEVICE T operator()(T power, T reference) const noexcept {
    return larger(level(power) - level(reference), floor);
  }
};

}  // namespace sluice::operations
