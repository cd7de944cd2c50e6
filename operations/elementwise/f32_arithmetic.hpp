// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sluice/operations/element_functions.hpp>

#include <cmath>
#include <limits>

namespace sluice::host {

/// Whether f32_arithmetic-inl.hpp has a function: a few instructions, for all arguments.
///@{
[[nodiscard]] constexpr bool is_arithmetic(unary_function f) noexcept {
  using function = unary_function;
  return f == function::negate || f == function::abs || f == function::relu ||
         f == function::sqrt || f == function::reciprocal || f == function::rsqrt ||
         f == function::leaky_relu || f == function::clip || f == function::hard_sigmoid ||
         f == function::hard_swish;
}
[[nodiscard]] constexpr bool is_arithmetic(binary_function f) noexcept {
  using function = binary_function;
  return f == function::add || f == function::subtract || f == function::multiply ||
         f == function::divide || f == function::maximum || f == function::minimum ||
         f == function::prelu;
}
///@}

/// The largest number of which `clip` makes its lower bound `low`. -0 is below +0, and a bound that
/// is NaN makes all numbers NaN.
[[nodiscard]] inline float clip_limit(float low) noexcept {
  if (std::isnan(low)) return HUGE_VALF;
  return low == 0 && std::signbit(low) ? -std::numeric_limits<float>::denorm_min() : low;
}

}  // namespace sluice::host
