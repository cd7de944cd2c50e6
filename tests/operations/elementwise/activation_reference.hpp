// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "tests/operations/elementwise/function_references.hpp"

#include <sluice/operations/activation.hpp>

#include <array>
#include <cstddef>

namespace sluice::test {

inline constexpr std::array all_activations{
    activation::none, activation::relu,    activation::gelu, activation::gelu_tanh,
    activation::silu, activation::sigmoid, activation::tanh};

/// The activation by its definition.
inline long double activated(activation a, long double x) {
  using function = unary_function;
  constexpr std::array functions{function::negate,    function::relu, function::gelu,
                                 function::gelu_tanh, function::silu, function::sigmoid,
                                 function::tanh};
  return a == activation::none ? x
                               : real_reference(functions[static_cast<std::size_t>(a)], x, 1, 0);
}

}  // namespace sluice::test
