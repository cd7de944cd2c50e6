// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "operations/elementwise/element_functors.hpp"

#include <sluice/host_device_code.hpp>

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>

// The functions of maps. Kernels include this header, so it compiles as C++17.
namespace sluice::operations {

/// What most functions of a map have in common.
template <class Argument, class Result = Argument>
struct map_function {
  using argument = Argument;
  using result = Result;
  static constexpr overflow on_overflow = overflow::saturates;
  static constexpr bool types_are_fixed = false;
  static constexpr bool inputs_may_miss = false;
};

/// Zeros behind `Used` bytes of a structure of `T`. Padding would have any value, so that two
/// captures of a kernel with the same argument would differ.
template <class T, std::size_t Used>
struct zeros_behind {
  static constexpr std::size_t alignment = alignof(T) < 8 ? 8 : alignof(T);
  unsigned char bytes[alignment - Used % alignment]{};
};

/// A binary function on one compute type. A number stands for an input that is missing.
template <class T>
struct binary_map : map_function<T> {
  static constexpr overflow on_overflow = overflow::wraps;
  static constexpr bool inputs_may_miss = true;
  binary_map(binary_function f, T n) noexcept : number(n), function(f) {}
  T number;
  binary_function function;
  zeros_behind<T, sizeof(T) + sizeof(binary_function)> zeros{};
  [[nodiscard]] SLUICE_HOST_DEVICE T missing(int) const noexcept { return number; }
  SLUICE_HOST_DEVICE T operator()(T a, T b) const noexcept { return apply(function, a, b); }
};

/// A unary function on one compute type.
template <class T>
struct unary_map : map_function<T> {
  static constexpr overflow on_overflow = overflow::wraps;
  unary_map(unary_function f, T first, T second) noexcept
      : alpha(first), beta(second), function(f) {}
  T alpha;
  T beta;
  unary_function function;
  zeros_behind<T, 2 * sizeof(T) + sizeof(unary_function)> zeros{};
  SLUICE_HOST_DEVICE T operator()(T x) const noexcept { return apply(function, x, alpha, beta); }
};

/// A unary function from complex to real numbers.
template <class Real>
struct parts_map : map_function<complex_number<Real>, Real> {
  static constexpr bool types_are_fixed = true;
  explicit parts_map(unary_function f) noexcept : function(f) {}
  unary_function function;
  zeros_behind<Real, sizeof(unary_function)> zeros{};
  SLUICE_HOST_DEVICE Real operator()(const complex_number<Real>& z) const noexcept {
    return apply_to_parts(function, z);
  }
};

/// The number itself, which is converted when it is stored.
template <class T, overflow Overflow = overflow::saturates>
struct identity : map_function<T> {
  static constexpr overflow on_overflow = Overflow;
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

/// x · factor. A missing x is 0. Elements lie in memory as `T`, if `IsFixed`.
template <class T, bool IsFixed = true>
struct scaled : map_function<T> {
  static constexpr bool types_are_fixed = IsFixed;
  static constexpr bool inputs_may_miss = true;
  explicit scaled(T f) noexcept : factor(f) {}
  T factor;
  [[nodiscard]] SLUICE_HOST_DEVICE T missing(int) const noexcept { return T{}; }
  SLUICE_HOST_DEVICE T operator()(T x) const noexcept { return product(x, factor); }
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
