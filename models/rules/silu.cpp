// SPDX-License-Identifier: Apache-2.0
// x · sigmoid(alpha · x)
#include "models/rules/monomial.hpp"
#include "models/rules/rules.hpp"

#include <cmath>

namespace sluice::models {

bool recognize_silu(optimizer& state, std::size_t step) {
  const auto* const product = state.operation<binary>(step);
  if (product == nullptr || product->function != binary_function::multiply) return false;
  if (!product->a || !product->b) return false;
  const auto a = state.value_of(product->a);
  const auto b = state.value_of(product->b);
  for (const auto& [x, gate] : {std::pair(a, b), std::pair(b, a)}) {
    std::vector<std::size_t> steps;
    const auto* const sigmoid = state.maker(gate, unary_function::sigmoid, &steps);
    if (sigmoid == nullptr) continue;
    const auto argument = state.value_of(sigmoid->x);
    double alpha = 1;
    if (argument != x) {
      const auto scaled = monomial_of(state, argument);
      if (!scaled.is_of(x, 1) || !std::isfinite(scaled.factor)) continue;
      alpha = scaled.factor;
      steps.insert(steps.end(), scaled.steps.begin(), scaled.steps.end());
    }
    return state.is_closed(steps, step) && state.replace(step, silu(operand_of(x), alpha));
  }
  return false;
}

}  // namespace sluice::models
