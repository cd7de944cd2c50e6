// SPDX-License-Identifier: Apache-2.0
#pragma once

// Kernels include this header, so it compiles as C++17.

#include <cstdint>

namespace sluice {

/// The function that is applied to each element x of a result; see `unary_function`.
enum class activation : std::uint8_t {
  none,       ///< x
  relu,       ///< max(x, 0); NaN of NaN
  gelu,       ///< x · Φ(x), with the normal distribution Φ
  gelu_tanh,  ///< x · (1 + tanh(√(2/π) · (x + 0.044715 · x³))) / 2
  silu,       ///< x / (1 + exp(-x))
  sigmoid,    ///< 1 / (1 + exp(-x))
  tanh,       ///< the hyperbolic tangent
};

}  // namespace sluice
