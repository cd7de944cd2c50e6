// SPDX-License-Identifier: Apache-2.0
// exp(x) / sum(exp(x)), with or without a maximum that is subtracted first.
#include "models/rules/reduced_axes.hpp"
#include "models/rules/rules.hpp"

#include <sluice/operations/normalization.hpp>

namespace sluice::models {

bool recognize_softmax(optimizer& state, std::size_t step) {
  const auto* const quotient = state.operation<binary>(step);
  if (quotient == nullptr || quotient->function != binary_function::divide) return false;
  if (!quotient->a || !quotient->b) return false;
  std::vector<std::size_t> steps;
  const auto powers = state.value_of(quotient->a);
  const auto* const exponential = state.maker(powers, unary_function::exp, &steps);
  const auto* const sum = state.maker<reduce>(state.value_of(quotient->b), &steps);
  if (exponential == nullptr || sum == nullptr || sum->kind != reduction::sum) return false;
  if (state.value_of(sum->x) != powers) return false;
  const auto rank = state.graph().spec(powers).rank();
  const auto axis = only_axis(*sum, rank);
  if (!axis) return false;
  auto x = state.value_of(exponential->x);
  const auto* const difference = state.maker(x, binary_function::subtract, nullptr);
  if (difference != nullptr && difference->a && difference->b) {
    const auto* const largest = state.maker<reduce>(state.value_of(difference->b), nullptr);
    const auto before = state.value_of(difference->a);
    if (largest != nullptr && largest->kind == reduction::max &&
        state.value_of(largest->x) == before && only_axis(*largest, rank) == axis) {
      (void)state.maker<binary>(x, &steps);
      (void)state.maker<reduce>(state.value_of(difference->b), &steps);
      x = before;
    }
  }
  return state.is_closed(steps, step) &&
         state.replace(step, softmax{.x = operand_of(x), .axis = *axis});
}

}  // namespace sluice::models
