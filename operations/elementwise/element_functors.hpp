// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "operations/elementwise/arithmetic.hpp"

#include <sluice/host_device_code.hpp>
#include <sluice/operations/element_functions.hpp>

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <type_traits>

// `binary_function` and `unary_function` of the compute types, for both devices. Which function
// takes which types is stated in binary.cpp and unary.cpp. Kernels include this header, so it
// compiles as C++17.

// Loops over a constant function become small ones only if the functions are inlined.
#if defined(__CUDACC__)
#define SLUICE_INLINED __forceinline__
#else
#define SLUICE_INLINED inline __attribute__((always_inline))
#endif

namespace sluice::operations {

/// f(a, b). The number 1 stands for true.
template <class T>
[[nodiscard]] SLUICE_HOST_DEVICE SLUICE_INLINED T apply(binary_function f, T a, T b) noexcept {
  using function = binary_function;
  if constexpr (is_complex_v<T>) {
    using part = typename T::value_type;
    const bool equal = a.real == b.real && a.imaginary == b.imaginary;
    switch (f) {
      case function::add:
        return sum(a, b);
      case function::subtract:
        return difference(a, b);
      case function::multiply:
        return product(a, b);
      case function::divide:
        return ratio(a, b);
      case function::equal:
        return {part(equal), part(0)};
      case function::not_equal:
        return {part(!equal), part(0)};
      default:
        return {};
    }
  } else {
    switch (f) {
      case function::add:
        return sum(a, b);
      case function::subtract:
        return difference(a, b);
      case function::multiply:
        return product(a, b);
      case function::divide:
        return ratio(a, b);
      case function::remainder:
        return floored_remainder(a, b);
      case function::fmod:
        return truncated_remainder(a, b);
      case function::power:
        return raised(a, b);
      case function::maximum:
        return larger(a, b);
      case function::minimum:
        return smaller(a, b);
      case function::prelu:
        return is_negative(a) ? product(a, b) : a;
      case function::equal:
        return T(a == b);
      case function::not_equal:
        return T(a != b);
      case function::less:
        return T(a < b);
      case function::less_equal:
        return T(a <= b);
      case function::greater:
        return T(a > b);
      case function::greater_equal:
        return T(a >= b);
      case function::logical_and:
        return T(a != T(0) && b != T(0));
      case function::logical_or:
        return T(a != T(0) || b != T(0));
      case function::logical_xor:
        return T((a != T(0)) != (b != T(0)));
      default:
        break;
    }
    if constexpr (std::is_floating_point_v<T>) {
      if (f == function::atan2) return std::atan2(a, b);
    } else {
      switch (f) {
        case function::bitwise_and:
          return a & b;
        case function::bitwise_or:
          return a | b;
        case function::bitwise_xor:
          return a ^ b;
        case function::left_shift:
          return shifted_left(a, b);
        case function::right_shift:
          return shifted_right(a, b);
        default:
          break;
      }
    }
    return T(0);
  }
}

/// The logistic function, without overflow.
template <class T>
[[nodiscard]] SLUICE_HOST_DEVICE inline T logistic(T x) noexcept {
  const T e = std::exp(x < 0 ? x : -x);
#if defined(__CUDA_ARCH__)
  // An exact division takes as long as the exponential. This reciprocal is off by 1 unit.
  if constexpr (std::is_same_v<T, float>) {
    float reciprocal;
    asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(reciprocal) : "f"(1.0F + e));
    return x < 0 ? e * reciprocal : reciprocal;
  }
#endif
  return (x < 0 ? e : T(1)) / (T(1) + e);
}
/// log(1 + exp(x)), without overflow.
template <class T>
[[nodiscard]] SLUICE_HOST_DEVICE inline T soft_plus(T x) noexcept {
  return larger(x, T(0)) + std::log1p(std::exp(x < 0 ? x : -x));
}
/// alpha · x + beta between 0 and 1.
template <class T>
[[nodiscard]] SLUICE_HOST_DEVICE inline T unit_ramp(T x, T alpha, T beta) noexcept {
  return larger(T(0), smaller(T(1), x * alpha + beta));
}

/// x times the probability that a normally distributed number is below x.
template <class T>
[[nodiscard]] SLUICE_HOST_DEVICE inline T normal_gate(T x) noexcept {
#if defined(__CUDA_ARCH__)
  // With half the instructions of the error function, and without cancellation. For t of at least
  // 0, the probability of a number below -t is 2^-q(t). A polynomial for q was fitted by weighted
  // minimax on [0, 5.5], such that the probability is off by at most 2^-24. It grows beyond.
  if constexpr (std::is_same_v<T, float>) {
    const float t = fabsf(x > 30.0F ? 30.0F : x);  // infinity times 0 would be NaN
    float q = -9.0596121e-7F;
    q = fmaf(q, t, 1.56106949e-5F);
    q = fmaf(q, t, -7.21922076e-5F);
    q = fmaf(q, t, -4.07614657e-4F);
    q = fmaf(q, t, 7.39955537e-3F);
    q = fmaf(q, t, -5.27079645e-2F);
    q = fmaf(q, t, -0.45914835F);
    q = fmaf(q, t, -1.1511106F);
    q = fmaf(q, t, -1.0F);
    float tail;
    asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(tail) : "f"(q));
    return fmaf(-t, tail, fmaxf(x, 0.0F));
  }
#endif
  return T(0.5) * x * (T(1) + std::erf(x * T(0.70710678118654752440)));
}

/// f(x) of a real number, for the functions that take only real types.
template <class T>
[[nodiscard]] SLUICE_HOST_DEVICE SLUICE_INLINED T apply_real(unary_function f, T x, T alpha,
                                                             T beta) noexcept {
  using function = unary_function;
  switch (f) {
    case function::reciprocal:
      return T(1) / x;
    case function::sqrt:
      return std::sqrt(x);
    case function::rsqrt:
      return T(1) / std::sqrt(x);
    case function::exp:
      return std::exp(x);
    case function::exp2:
      return std::exp2(x);
    case function::expm1:
      return std::expm1(x);
    case function::log:
      return std::log(x);
    case function::log2:
      return std::log2(x);
    case function::log10:
      return std::log10(x);
    case function::log1p:
      return std::log1p(x);
    case function::sin:
      return std::sin(x);
    case function::cos:
      return std::cos(x);
    case function::tan:
      return std::tan(x);
    case function::asin:
      return std::asin(x);
    case function::acos:
      return std::acos(x);
    case function::atan:
      return std::atan(x);
    case function::sinh:
      return std::sinh(x);
    case function::cosh:
      return std::cosh(x);
    case function::tanh:
      return std::tanh(x);
    case function::asinh:
      return std::asinh(x);
    case function::acosh:
      return std::acosh(x);
    case function::atanh:
      return std::atanh(x);
    case function::erf:
      return std::erf(x);
    case function::isnan:
      return T(x != x);
    case function::isinf:
      return T(x == x && x - x != x - x);
    case function::leaky_relu:
      return x < 0 ? alpha * x : x;
    case function::thresholded_relu:
      return x <= alpha ? T(0) : x;
    case function::elu:
      return x > 0 ? x : alpha * std::expm1(x);
    case function::selu:
      return beta * (x > 0 ? x : alpha * std::expm1(x));
    case function::celu:
      return x > 0 ? x : alpha * std::expm1(x / alpha);
    case function::sigmoid:
      return logistic(x);
    case function::hard_sigmoid:
      return unit_ramp(x, alpha, beta);
    case function::hard_swish:
      return x * unit_ramp(x, T(1) / T(6), T(0.5));
    case function::softplus:
      return soft_plus(x);
    case function::softsign:
      return x / (T(1) + (x < 0 ? -x : x));
    case function::gelu:
      return normal_gate(x);
    case function::gelu_tanh:
      return x * logistic(T(1.5957691216057307118) * (x + T(0.044715) * (x * x * x)));
    case function::silu:
      return x * logistic(alpha * x);
    case function::mish:
      return x * std::tanh(soft_plus(x));
    case function::shrink:
      return x >= -alpha && x <= alpha ? T(0) : x < 0 ? x + beta : x - beta;
    default:
      return T(0);
  }
}

/// f(x). The number 1 stands for true.
template <class T>
[[nodiscard]] SLUICE_HOST_DEVICE SLUICE_INLINED T apply(unary_function f, T x, T alpha,
                                                        T beta) noexcept {
  using function = unary_function;
  if constexpr (is_complex_v<T>) {
    switch (f) {
      case function::negate:
        return {-x.real, -x.imaginary};
      case function::reciprocal:
        return ratio(T{1, 0}, x);
      case function::conjugate:
        return {x.real, -x.imaginary};
      default:
        return {};
    }
  } else {
    switch (f) {
      case function::negate:
        return std::is_floating_point_v<T> ? -x : difference(T(0), x);
      case function::abs:
        return is_negative(x) ? difference(T(0), x) : x == T(0) ? T(0) : x;
      case function::sign:
        return x != x ? x : static_cast<T>((x > T(0)) - is_negative(x));
      case function::logical_not:
        return T(x == T(0));
      case function::relu:
        return larger(x, T(0));
      case function::clip:
        return smaller(larger(x, alpha), beta);
      default:
        break;
    }
    if constexpr (std::is_floating_point_v<T>) {
      switch (f) {
        case function::floor:
          return std::floor(x);
        case function::ceil:
          return std::ceil(x);
        case function::round:
          return std::rint(x);
        case function::trunc:
          return std::trunc(x);
        default:
          return apply_real(f, x, alpha, beta);
      }
    } else {
      return f == function::bitwise_not ? ~x : x;
    }
  }
}

/// The real number f(z) of a complex one.
template <class Real>
[[nodiscard]] SLUICE_HOST_DEVICE inline Real apply_to_parts(
    unary_function f, const complex_number<Real>& z) noexcept {
  return f == unary_function::abs ? std::hypot(z.real, z.imaginary)
                                  : std::atan2(z.imaginary, z.real);
}

/// Whether the results of a function are booleans.
///@{
[[nodiscard]] SLUICE_HOST_DEVICE constexpr bool is_predicate(binary_function f) noexcept {
  return f >= binary_function::equal && f <= binary_function::logical_xor;
}
[[nodiscard]] SLUICE_HOST_DEVICE constexpr bool is_predicate(unary_function f) noexcept {
  return f == unary_function::isnan || f == unary_function::isinf ||
         f == unary_function::logical_not;
}
///@}

/// Calls `run` with the function as a constant, a type with the member `value`, such that a loop
/// over elements does not choose the function in each iteration. The function is one of `Count`
/// from `First` on, and is found in a logarithmic number of comparisons.
///@{
template <std::size_t First, std::size_t Count, class Function, class Run>
SLUICE_HOST_DEVICE SLUICE_INLINED void with_constant(Function f, const Run& run) {
  if constexpr (Count == 1) {
    run(std::integral_constant<Function, static_cast<Function>(First)>());
  } else {
    constexpr std::size_t half = Count / 2;
    if (static_cast<std::size_t>(f) < First + half) {
      with_constant<First, half>(f, run);
    } else {
      with_constant<First + half, Count - half>(f, run);
    }
  }
}
template <class Run>
SLUICE_HOST_DEVICE inline void with_constant(binary_function f, const Run& run) {
  with_constant<0, binary_function_count>(f, run);
}
template <class Run>
SLUICE_HOST_DEVICE inline void with_constant(unary_function f, const Run& run) {
  with_constant<0, unary_function_count>(f, run);
}
///@}

}  // namespace sluice::operations
