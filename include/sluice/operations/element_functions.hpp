// SPDX-License-Identifier: Apache-2.0
#pragma once

// Kernels include this header, so it compiles as C++17.

#include <cstddef>
#include <cstdint>

namespace sluice {

/// The functions of `unary`. x is an element, alpha and beta are parameters of the request; where a
/// function has one, its default is given.
///
/// "Real" stands for the types f16, bf16, f32 and f64. No function takes e4m3 and e5m2.
enum class unary_function : std::uint8_t {
  negate,       ///< -x. All types.
  abs,          ///< |x|. All types; the result of a complex type is real.
  sign,         ///< -1, 0 or 1; NaN of NaN. All but complex types.
  reciprocal,   ///< 1 / x. Real and complex types.
  sqrt,         ///< √x. Real types.
  rsqrt,        ///< 1 / √x. Real types.
  exp,          ///< e to the power of x. Real types.
  exp2,         ///< 2 to the power of x. Real types.
  expm1,        ///< exp(x) - 1, also exact near 0. Real types.
  log,          ///< The natural logarithm. Real types.
  log2,         ///< The logarithm to the base 2. Real types.
  log10,        ///< The logarithm to the base 10. Real types.
  log1p,        ///< log(1 + x), also exact near 0. Real types.
  sin,          ///< The sine of x radians. Real types.
  cos,          ///< The cosine of x radians. Real types.
  tan,          ///< The tangent of x radians. Real types.
  asin,         ///< The inverse sine. Real types.
  acos,         ///< The inverse cosine. Real types.
  atan,         ///< The inverse tangent. Real types.
  sinh,         ///< The hyperbolic sine. Real types.
  cosh,         ///< The hyperbolic cosine. Real types.
  tanh,         ///< The hyperbolic tangent. Real types.
  asinh,        ///< The inverse hyperbolic sine. Real types.
  acosh,        ///< The inverse hyperbolic cosine. Real types.
  atanh,        ///< The inverse hyperbolic tangent. Real types.
  erf,          ///< The error function. Real types.
  floor,        ///< The largest integer that is not above x. All but complex types.
  ceil,         ///< The smallest integer that is not below x. All but complex types.
  round,        ///< The nearest integer, ties to even. All but complex types.
  trunc,        ///< The integer part. All but complex types.
  isnan,        ///< Whether x is NaN, as a boolean. Real types.
  isinf,        ///< Whether x is infinite, as a boolean. Real types.
  logical_not,  ///< Whether x is 0, as a boolean. All but complex types.
  bitwise_not,  ///< All bits of x inverted; of a boolean, `logical_not`. Integers and booleans.
  conjugate,    ///< The complex conjugate. Complex types.
  angle,        ///< The argument in radians; the result is real. Complex types.
  relu,         ///< max(x, 0). All but complex types.
  leaky_relu,   ///< x, or alpha · x below 0; alpha = 0.01. Real types.
  thresholded_relu,  ///< x, or 0 up to alpha; alpha = 1. Real types.
  elu,               ///< x, or alpha · (exp(x) - 1) below 0; alpha = 1. Real types.
  /// beta · elu(x); alpha = 1.6732632, beta = 1.0507010 (Klambauer et al., "Self-normalizing neural
  /// networks", 2017). Real types.
  selu,
  celu,          ///< x, or alpha · (exp(x / alpha) - 1) below 0; alpha = 1. Real types.
  sigmoid,       ///< 1 / (1 + exp(-x)). Real types.
  hard_sigmoid,  ///< alpha · x + beta between 0 and 1; alpha = 1/6, beta = 0.5. Real types.
  hard_swish,    ///< x · hard_sigmoid(x) with the defaults of alpha and beta. Real types.
  softplus,      ///< log(1 + exp(x)). Real types.
  softsign,      ///< x / (1 + |x|). Real types.
  gelu,          ///< x · Φ(x), with the normal distribution Φ. Real types.
  gelu_tanh,     ///< x · (1 + tanh(√(2/π) · (x + 0.044715 · x³))) / 2. Real types.
  silu,          ///< x · sigmoid(alpha · x); alpha = 1. Real types.
  mish,          ///< x · tanh(softplus(x)). Real types.
  /// x + beta below -alpha, x - beta above alpha, else 0; alpha = 0.5, beta = 0. Real types.
  shrink,
  /// min(max(x, alpha), beta); a bound that is not given does not bound. All but complex types.
  clip,
};

/// The number of functions in `unary_function`.
inline constexpr std::size_t unary_function_count =
    static_cast<std::size_t>(unary_function::clip) + 1;

/// The functions of `binary`, of elements a and b.
///
/// "Real" stands for the types f16, bf16, f32 and f64. Integers wrap around. Functions whose result
/// is a boolean are comparisons and logic; a NaN differs from every number. No e4m3 and e5m2.
enum class binary_function : std::uint8_t {
  add,       ///< a + b. All types; of booleans, the disjunction.
  subtract,  ///< a - b. All types; of booleans, whether they differ.
  multiply,  ///< a · b. All types; the parts of a complex product are rounded after each operation.
  /// a / b. All types. The quotient of integers is truncated toward zero; it is 0 if b is 0.
  divide,
  /// a - ⌊a / b⌋ · b, which has the sign of b; of integers, 0 if b is 0. All but complex types.
  remainder,
  /// The remainder of the truncated quotient, which has the sign of a; of integers, 0 if b is 0.
  /// All but complex types.
  fmod,
  /// a to the power of b. All but complex types. Of integers with a negative b: 0, unless a is 1 or
  /// -1.
  power,
  maximum,        ///< The larger one; NaN if one is NaN; +0 is larger than -0. No complex types.
  minimum,        ///< The smaller one; NaN if one is NaN; -0 is smaller than +0. No complex types.
  atan2,          ///< The angle of the point (b, a) in radians. Real types.
  prelu,          ///< a, or a · b if a is below 0. All but complex types.
  equal,          ///< a = b, as a boolean. All types.
  not_equal,      ///< a ≠ b, as a boolean. All types.
  less,           ///< a < b, as a boolean. All but complex types.
  less_equal,     ///< a ≤ b, as a boolean. All but complex types.
  greater,        ///< a > b, as a boolean. All but complex types.
  greater_equal,  ///< a ≥ b, as a boolean. All but complex types.
  logical_and,    ///< Whether neither is 0, as a boolean. All but complex types.
  logical_or,     ///< Whether one is not 0, as a boolean. All but complex types.
  logical_xor,    ///< Whether exactly one is not 0, as a boolean. All but complex types.
  bitwise_and,    ///< The bits that both have. Integers and booleans.
  bitwise_or,     ///< The bits that one of them has. Integers and booleans.
  bitwise_xor,    ///< The bits that exactly one of them has. Integers and booleans.
  /// a · 2^b. Integers. A b that is negative or at least the number of bits shifts all bits out.
  left_shift,
  right_shift,  ///< ⌊a / 2^b⌋. Integers. b as in `left_shift`.
};

/// The number of functions in `binary_function`.
inline constexpr std::size_t binary_function_count =
    static_cast<std::size_t>(binary_function::right_shift) + 1;

}  // namespace sluice
