// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "tests/operations/elementwise/number.hpp"

#include <sluice/operations/element_functions.hpp>

#include <algorithm>
#include <cmath>
#include <complex>
#include <limits>

// The functions of elements in f80 and in integers of 128 bits, without code of the library.
namespace sluice::test {

__extension__ using wide_integer = __int128;
__extension__ using wide_unsigned = unsigned __int128;

/// The largest errors of a device, in units in the last place of the type in which it computes.
struct error_bounds {
  int arithmetic = 1;  ///< of functions that are a few operations
  int functions = 4;   ///< of all others
};

/// The distance of neighbouring numbers of a real type around `value`.
[[nodiscard]] inline long double unit_at(element_type type, long double value) {
  const bool is_f16 = type == element_type::f16;
  const bool is_bf16 = type == element_type::bf16;
  const bool is_f32 = type == element_type::f32 || type == element_type::c64;
  const int digits = is_f16 ? 11 : is_bf16 ? 8 : is_f32 ? 24 : 53;
  const int least = is_f16 ? -14 : is_bf16 || is_f32 ? -126 : -1022;
  const int exponent = value == 0 || !std::isfinite(value) ? least : std::ilogb(value);
  return std::ldexp(1.0L, std::max(exponent, least) - digits + 1);
}
/// Half the distance of neighbouring numbers around 1.
[[nodiscard]] inline long double unit_of(element_type type) {
  return unit_at(type, 1) / 2;
}
/// Whether a result is within `bound` units of `expected`, plus the rounding to its type. `scale`
/// is a number of whose size the error may be.
[[nodiscard]] inline bool is_near(element_type type, long double result, long double expected,
                                  int bound, long double scale = 0) {
  const auto rounded_expected = to_real_type(type, expected);
  if (bound == 0 || same(result, rounded_expected)) return same(result, rounded_expected);
  if (std::isnan(expected) || std::isnan(result)) return false;
  const auto computed_type =
      type == element_type::f16 || type == element_type::bf16 ? element_type::f32 : type;
  const auto largest = std::max(std::abs(expected), std::abs(scale));
  const auto error = static_cast<long double>(bound) * unit_at(computed_type, largest);
  // A result next to the largest number may be infinite.
  const auto low = to_real_type(type, expected - error);
  const auto high = to_real_type(type, expected + error);
  return result >= std::min(low, rounded_expected) && result <= std::max(high, rounded_expected);
}

/// f(a, b) of real numbers.
[[nodiscard]] inline long double real_reference(binary_function f, long double a, long double b) {
  const bool has_nan = std::isnan(a) || std::isnan(b);
  const auto floored = [&] {
    const auto rest = std::fmod(a, b);
    if (rest == 0) return std::copysign(0.0L, b);
    return std::signbit(rest) == std::signbit(b) ? rest : rest + b;
  };
  switch (f) {
    case binary_function::add:
      return a + b;
    case binary_function::subtract:
      return a - b;
    case binary_function::multiply:
      return a * b;
    case binary_function::divide:
      return a / b;
    case binary_function::remainder:
      return floored();
    case binary_function::fmod:
      return std::fmod(a, b);
    case binary_function::power:
      return std::pow(a, b);
    case binary_function::maximum:
    case binary_function::minimum: {
      if (has_nan) return std::numeric_limits<long double>::quiet_NaN();
      const bool wants_larger = f == binary_function::maximum;
      if (a == b) return std::signbit(a) == wants_larger ? b : a;
      return (a > b) == wants_larger ? a : b;
    }
    case binary_function::atan2:
      return std::atan2(a, b);
    case binary_function::prelu:
      return a < 0 ? a * b : a;
    case binary_function::equal:
      return a == b ? 1 : 0;
    case binary_function::not_equal:
      return a == b ? 0 : 1;
    case binary_function::less:
      return a < b ? 1 : 0;
    case binary_function::less_equal:
      return a < b || a == b ? 1 : 0;
    case binary_function::greater:
      return b < a ? 1 : 0;
    case binary_function::greater_equal:
      return b < a || a == b ? 1 : 0;
    case binary_function::logical_and:
      return a == 0 || b == 0 ? 0 : 1;
    case binary_function::logical_or:
      return a == 0 && b == 0 ? 0 : 1;
    case binary_function::logical_xor:
      return (a == 0) == (b == 0) ? 0 : 1;
    default:
      return std::numeric_limits<long double>::quiet_NaN();
  }
}

/// f(a, b) of integers of `bits` bits, before it wraps around.
[[nodiscard]] inline wide_integer integer_reference(binary_function f, wide_integer a,
                                                    wide_integer b, int bits) {
  const auto floored_quotient = [](wide_integer n, wide_integer d) {
    return n / d - (n % d != 0 && (n < 0) != (d < 0) ? 1 : 0);
  };
  switch (f) {
    case binary_function::multiply:
    case binary_function::prelu:
      if (f == binary_function::prelu && a >= 0) return a;
      // The product of two u64 is too large for the signed type, and may wrap around.
      return static_cast<wide_integer>(static_cast<wide_unsigned>(a) *
                                       static_cast<wide_unsigned>(b));
    case binary_function::add:
      return a + b;
    case binary_function::subtract:
      return a - b;
    case binary_function::divide:
      return b == 0 ? 0 : a / b;
    case binary_function::remainder:
      return b == 0 ? 0 : a - floored_quotient(a, b) * b;
    case binary_function::fmod:
      return b == 0 ? 0 : a - a / b * b;
    case binary_function::power: {
      if (b < 0) return a == 1 || (a == -1 && b % 2 == 0) ? 1 : a == -1 ? -1 : 0;
      if (b == 0) return 1;
      const auto root = integer_reference(f, a, b / 2, bits);
      const auto square = integer_reference(binary_function::multiply, root, root, bits);
      return b % 2 == 0 ? square : integer_reference(binary_function::multiply, square, a, bits);
    }
    case binary_function::bitwise_and:
      return a & b;
    case binary_function::bitwise_or:
      return a | b;
    case binary_function::bitwise_xor:
      return a ^ b;
    case binary_function::left_shift: {
      wide_unsigned shifted = b < 0 || b >= bits ? 0 : static_cast<wide_unsigned>(a);
      for (wide_integer i = 0; shifted != 0 && i < b; ++i) shifted *= 2;
      return static_cast<wide_integer>(shifted);
    }
    case binary_function::right_shift: {
      if (b < 0 || b >= bits) return a < 0 ? -1 : 0;
      for (wide_integer i = 0; i < b; ++i) a = floored_quotient(a, 2);
      return a;
    }
    default:
      return static_cast<wide_integer>(
          real_reference(f, static_cast<long double>(a), static_cast<long double>(b)));
  }
}

/// f(x) of real numbers with the parameters alpha and beta.
[[nodiscard]] inline long double real_reference(unary_function f, long double x, long double alpha,
                                                long double beta) {
  using function = unary_function;
  const auto logistic = [](long double v) {
    return 1 / (1 + std::exp(-v));
  };
  const auto softplus = [](long double v) {
    return std::max(v, 0.0L) + std::log1p(std::exp(-std::abs(v)));
  };
  const auto between = [](long double v, long double least, long double most) {
    return std::isnan(v) ? v : std::min(std::max(v, least), most);
  };
  switch (f) {
    case function::negate:
      return -x;
    case function::abs:
      return std::abs(x);
    case function::sign:
      return std::isnan(x) ? x : x > 0 ? 1 : x < 0 ? -1 : 0;
    case function::reciprocal:
      return 1 / x;
    case function::sqrt:
      return std::sqrt(x);
    case function::rsqrt:
      return 1 / std::sqrt(x);
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
    case function::floor:
      return std::floor(x);
    case function::ceil:
      return std::ceil(x);
    case function::round:
      return std::nearbyint(x);
    case function::trunc:
      return std::trunc(x);
    case function::isnan:
      return std::isnan(x) ? 1 : 0;
    case function::isinf:
      return std::isinf(x) ? 1 : 0;
    case function::logical_not:
      return x == 0 ? 1 : 0;
    case function::relu:
      return std::isnan(x) ? x : x > 0 ? x : 0;
    case function::leaky_relu:
      return x < 0 ? alpha * x : x;
    case function::thresholded_relu:
      return std::isnan(x) || x > alpha ? x : 0;
    case function::elu:
      return x > 0 ? x : alpha * std::expm1(x);
    case function::selu:
      return beta * (x > 0 ? x : alpha * std::expm1(x));
    case function::celu:
      return x > 0 ? x : alpha * std::expm1(x / alpha);
    case function::sigmoid:
      return logistic(x);
    case function::hard_sigmoid:
      return between(alpha * x + beta, 0, 1);
    case function::hard_swish:
      return x * between(x / 6 + 0.5L, 0, 1);
    case function::softplus:
      return std::isnan(x) ? x : softplus(x);
    case function::softsign:
      return x / (1 + std::abs(x));
    case function::gelu:
      return x * std::erfc(-x / std::sqrt(2.0L)) / 2;
    case function::gelu_tanh:
      return x * logistic(2 * std::sqrt(2 / std::acos(-1.0L)) * (x + 0.044715L * x * x * x));
    case function::silu:
      return x * logistic(alpha * x);
    case function::mish:
      return std::isnan(x) ? x : x * std::tanh(softplus(x));
    case function::shrink:
      if (std::isnan(x)) return x;
      return x < -alpha ? x + beta : x > alpha ? x - beta : 0;
    case function::clip:
      return between(x, alpha, beta);
    default:
      return std::numeric_limits<long double>::quiet_NaN();
  }
}

/// Whether the error of a function is measured in units of the larger one of argument and result.
[[nodiscard]] constexpr bool is_relative_to_argument(unary_function f) {
  using function = unary_function;
  return f == function::hard_sigmoid || f == function::hard_swish || f == function::gelu ||
         f == function::gelu_tanh || f == function::silu || f == function::mish;
}

/// The largest error of f, in units in the last place of the type in which it is computed.
[[nodiscard]] constexpr int bound_of(unary_function f, element_type type,
                                     const error_bounds& bounds) {
  using function = unary_function;
  switch (f) {
    case function::negate:
    case function::abs:
    case function::sign:
    case function::floor:
    case function::ceil:
    case function::round:
    case function::trunc:
    case function::isnan:
    case function::isinf:
    case function::logical_not:
    case function::relu:
    case function::thresholded_relu:
    case function::clip:
      return 0;
    case function::reciprocal:
    case function::sqrt:
      // Rounded once. The reference of f64 has too few digits to be rounded again.
      return type == element_type::f64 ? 1 : 0;
    case function::rsqrt:
    case function::leaky_relu:
    case function::hard_sigmoid:
    case function::hard_swish:
    case function::softsign:
    case function::shrink:
      return 2 * bounds.arithmetic;
    default:
      return bounds.functions;
  }
}

}  // namespace sluice::test
