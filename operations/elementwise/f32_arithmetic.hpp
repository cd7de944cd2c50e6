// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sluice/operations/element_functions.hpp>

namespace sluice::host {

/// Whether f32_arithmetic-inl.hpp has a function: a few instructions, for all arguments.
///@{
[[nodiscard]] constexpr bool is_arithmetic(unary_function f) noexcept {
  using function = unary_function;
  return f == function::negate || f == function::abs || f == function::relu ||
         f == function::sqrt || f == function::reciprocal || f == function::rsqrt ||
         f == function::leaky_relu || f == function::clip;
}
[[nodiscard]] constexpr bool is_arithmetic(binary_function f) noexcept {
  using function = binary_function;
  return f == function::add || f == function::subtract || f == function::multiply ||
         f == function::divide || f == function::maximum || f == function::minimum ||
         f == function::prelu;
}
///@}

}  // namespace sluice::host
