// SPDX-License-Identifier: Apache-2.0
// x · hard_sigmoid(x), or x · min(max(x + 3, 0), 6) / 6
#include "models/rules/monomial.hpp"
#include "models/rules/rules.hpp"

namespace sluice::models {
namespace {

using number = step_graph::number;

/// x, if `value` is x + 3 between 0 and 6.
std::optional<number> clipped_argument(const optimizer& state, number value,
                                       std::vector<std::size_t>& steps) {
  std::optional<optimizer::with_number> bounded;
  if (const auto* const clip = state.maker(value, unary_function::clip, &steps)) {
    const auto bound = [&](const std::optional<scalar>& x) {
      return x && !x->is_of_program() ? state.number_of(operand_or_number(*x)) : std::nullopt;
    };
    if (bound(clip->alpha) != 0.0 || bound(clip->beta) != 6.0) return {};
    bounded = {state.value_of(clip->x), 0};
  } else {
    // Limits are applied in any order.
    double least = 1;
    double most = 0;
    auto x = value;
    for (int i = 0; i < 2; ++i) {
      const auto* limit = state.maker(x, binary_function::maximum, &steps);
      const bool is_least = limit != nullptr;
      if (limit == nullptr) limit = state.maker(x, binary_function::minimum, &steps);
      const auto parts = limit != nullptr ? state.operands_with_number(*limit) : std::nullopt;
      if (!parts) return {};
      (is_least ? least : most) = parts->constant;
      x = parts->value;
    }
    if (least != 0 || most != 6) return {};
    bounded = {x, 0};
  }
  const auto* const sum = state.maker(bounded->value, binary_function::add, &steps);
  const auto parts = sum != nullptr ? state.operands_with_number(*sum) : std::nullopt;
  return parts && parts->constant == 3 ? std::optional(parts->value) : std::nullopt;
}

/// x, if `value` is hard_sigmoid(x) with the slope 1/6.
std::optional<number> argument_of_sigmoid(const optimizer& state, number value, element_type type,
                                          std::vector<std::size_t>& steps) {
  const auto* const sigmoid = state.maker(value, unary_function::hard_sigmoid, &steps);
  if (sigmoid == nullptr) return {};
  const auto is_near = [&](const std::optional<scalar>& x, double exact) {
    return !x || (!x->is_of_program() &&
                  is_rounded(state.number_of(operand_or_number(*x)).value_or(0), exact, type));
  };
  if (!is_near(sigmoid->alpha, 1.0 / 6) || !is_near(sigmoid->beta, 0.5)) return {};
  return state.value_of(sigmoid->x);
}

}  // namespace

bool recognize_hard_swish(optimizer& state, std::size_t step) {
  const auto result = state.graph().steps()[step].first_result;
  const auto type = state.graph().spec(result).type;
  if (state.operation<binary>(step) == nullptr || !is_real(type)) return false;
  const auto product = monomial_of(state, result);
  for (const auto& [gate, exponent] : product.powers) {
    const auto x = product.other_than(gate);
    if (!x) continue;
    auto steps = product.steps;
    std::erase(steps, step);
    const bool has_clip =
        is_rounded(product.factor, 1.0 / 6, type) && clipped_argument(state, gate, steps) == x;
    if (!has_clip) {
      steps = product.steps;
      std::erase(steps, step);
      if (product.factor != 1 || argument_of_sigmoid(state, gate, type, steps) != x) continue;
    }
    return state.is_closed(steps, step) &&
           state.replace(step, unary{.function = unary_function::hard_swish, .x = operand_of(*x)});
  }
  return false;
}

}  // namespace sluice::models
