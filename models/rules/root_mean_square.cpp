// SPDX-License-Identifier: Apache-2.0
#include "models/rules/root_mean_square.hpp"

#include "models/rules/reduced_axes.hpp"

namespace sluice::models {
namespace {

using number = step_graph::number;
using found_value = std::optional<normalized_value>;

/// x, if a value is x².
std::optional<number> base_of_square(const optimizer& state, number value,
                                     std::vector<std::size_t>& steps) {
  const auto* const square = state.maker<binary>(value, &steps);
  if (square == nullptr || !square->a) return {};
  const auto x = state.value_of(square->a);
  if (square->function == binary_function::power && state.number_of(square->b) == 2.0) return x;
  const bool is_product = square->function == binary_function::multiply && square->b;
  return is_product && state.value_of(square->b) == x ? std::optional(x) : std::nullopt;
}

/// mean(x²) + epsilon
found_value mean_square(const optimizer& state, number value, std::vector<std::size_t> steps) {
  const auto* const sum = state.maker(value, binary_function::add, &steps);
  const auto parts = sum != nullptr ? state.operands_with_number(*sum) : std::nullopt;
  if (!parts || !(parts->constant >= 0)) return {};
  const auto* const mean = state.maker<reduce>(parts->value, &steps);
  if (mean == nullptr || mean->kind != reduction::mean) return {};
  const auto x = base_of_square(state, state.value_of(mean->x), steps);
  if (!x) return {};
  const auto axis = first_axis(*mean, state.graph().spec(*x).rank());
  if (!axis) return {};
  return normalized_value{
      .x = *x, .axis = *axis, .epsilon = parts->constant, .steps = std::move(steps)};
}

/// √(mean(x²) + epsilon)
found_value root(const optimizer& state, number value, std::vector<std::size_t> steps) {
  if (const auto* const sqrt = state.maker(value, unary_function::sqrt, &steps)) {
    return mean_square(state, state.value_of(sqrt->x), std::move(steps));
  }
  const auto* const power = state.maker(value, binary_function::power, &steps);
  if (power == nullptr || !power->a || state.number_of(power->b) != 0.5) return {};
  return mean_square(state, state.value_of(power->a), std::move(steps));
}

/// 1 / √(mean(x²) + epsilon)
found_value reciprocal_root(const optimizer& state, number value) {
  std::vector<std::size_t> steps;
  if (const auto* const reciprocal = state.maker(value, unary_function::reciprocal, &steps)) {
    return root(state, state.value_of(reciprocal->x), std::move(steps));
  }
  if (const auto* const rsqrt = state.maker(value, unary_function::rsqrt, &steps)) {
    return mean_square(state, state.value_of(rsqrt->x), std::move(steps));
  }
  const auto* const quotient = state.maker<binary>(value, &steps);
  if (quotient == nullptr) return {};
  if (quotient->function == binary_function::divide && quotient->b &&
      state.number_of(quotient->a) == 1.0) {
    return root(state, state.value_of(quotient->b), std::move(steps));
  }
  const bool is_power = quotient->function == binary_function::power && quotient->a &&
                        state.number_of(quotient->b) == -0.5;
  if (!is_power) return {};
  return mean_square(state, state.value_of(quotient->a), std::move(steps));
}

}  // namespace

found_value normalized_by(const optimizer& state, std::size_t step) {
  const auto* const operation = state.operation<binary>(step);
  if (operation == nullptr || !operation->a || !operation->b) return {};
  const auto a = state.value_of(operation->a);
  const auto b = state.value_of(operation->b);
  found_value found;
  if (operation->function == binary_function::divide) {
    found = root(state, b, {});
    return found && found->x == a ? found : std::nullopt;
  }
  if (operation->function != binary_function::multiply) return {};
  found = reciprocal_root(state, b);
  if (found && found->x == a) return found;
  found = reciprocal_root(state, a);
  return found && found->x == b ? found : std::nullopt;
}

}  // namespace sluice::models
