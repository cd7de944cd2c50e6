// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "operations/elementwise/element_functors.hpp"

#include <sluice/host_device_code.hpp>
#include <sluice/operations/activation.hpp>

#include <type_traits>

// The functions of activations. Kernels include this header, so it compiles as C++17.
namespace sluice::operations {

/// The parameters of these functions.
///@{
inline constexpr int activation_alpha = 1;
inline constexpr int activation_beta = 0;
///@}

/// Calls `run` with the function of an activation as a constant; see `with_constant`. `none` has no
/// function, and nothing is called.
template <class Run>
SLUICE_HOST_DEVICE inline void with_function(activation a, const Run& run) {
  using function = unary_function;
  switch (a) {
    case activation::none:
      return;
    case activation::relu:
      return run(std::integral_constant<function, function::relu>());
    case activation::gelu:
      return run(std::integral_constant<function, function::gelu>());
    case activation::gelu_tanh:
      return run(std::integral_constant<function, function::gelu_tanh>());
    case activation::silu:
      return run(std::integral_constant<function, function::silu>());
    case activation::sigmoid:
      return run(std::integral_constant<function, function::sigmoid>());
    case activation::tanh:
      return run(std::integral_constant<function, function::tanh>());
  }
}

}  // namespace sluice::operations
