// SPDX-License-Identifier: Apache-2.0
// x · Φ(x), as a product with 1 + erf(x / √2), or with its approximation by tanh.
#include "models/rules/monomial.hpp"
#include "models/rules/rules.hpp"

#include <numbers>

namespace sluice::models {
namespace {

using number = step_graph::number;

void append(std::vector<std::size_t>& steps, const std::vector<std::size_t>& more) {
  steps.insert(steps.end(), more.begin(), more.end());
}

/// x, if `value` is x / √2.
std::optional<number> argument_of_erf(const optimizer& state, number value, element_type type,
                                      std::vector<std::size_t>& steps) {
  const auto product = monomial_of(state, value);
  if (product.powers.size() != 1 || product.powers.begin()->second != 1) return {};
  if (!is_rounded(product.factor, std::numbers::sqrt2 / 2, type)) return {};
  append(steps, product.steps);
  return product.powers.begin()->first;
}

/// Whether `value` is 0.044715 · x^exponent.
bool is_correction(const optimizer& state, number value, number x, int exponent, element_type type,
                   std::vector<std::size_t>& steps) {
  const auto product = monomial_of(state, value);
  append(steps, product.steps);
  return product.is_of(x, exponent) && is_rounded(product.factor, 0.044715, type);
}

/// Whether `value` is √(2/π) · (x + 0.044715 · x³), or √(2/π) · x · (1 + 0.044715 · x²).
bool is_argument_of_tanh(const optimizer& state, number value, number x, element_type type,
                         std::vector<std::size_t>& steps) {
  const auto product = monomial_of(state, value);
  append(steps, product.steps);
  const auto factor = std::numbers::sqrt2 * std::numbers::inv_sqrtpi;
  if (!is_rounded(product.factor, factor, type)) return false;
  if (const auto sum = product.other_than(x)) {
    const auto parts = successor_of(state, *sum);
    if (!parts) return false;
    steps.push_back(parts->step);
    return is_correction(state, parts->x, x, 2, type, steps);
  }
  if (product.powers.size() != 1 || product.powers.begin()->second != 1) return false;
  const auto* const sum = state.maker(product.powers.begin()->first, binary_function::add, &steps);
  if (sum == nullptr || !sum->a || !sum->b) return false;
  const auto a = state.value_of(sum->a);
  const auto b = state.value_of(sum->b);
  if (a != x && b != x) return false;
  return is_correction(state, a == x ? b : a, x, 3, type, steps);
}

}  // namespace

bool recognize_gelu(optimizer& state, std::size_t step) {
  const auto result = state.graph().steps()[step].first_result;
  const auto type = state.graph().spec(result).type;
  if (state.operation<binary>(step) == nullptr || !is_real(type)) return false;
  const auto product = monomial_of(state, result);
  if (product.powers.size() != 2 || !is_rounded(product.factor, 0.5, type)) return false;
  for (const auto& [sum, exponent] : product.powers) {
    const auto x = product.other_than(sum);
    const auto parts = x ? successor_of(state, sum) : std::nullopt;
    if (!parts) continue;
    auto steps = product.steps;
    std::erase(steps, step);
    steps.push_back(parts->step);
    unary found;
    if (const auto* const erf = state.maker(parts->x, unary_function::erf, &steps)) {
      if (argument_of_erf(state, state.value_of(erf->x), type, steps) != x) continue;
      found = gelu(operand_of(*x));
    } else if (const auto* const tanh = state.maker(parts->x, unary_function::tanh, &steps)) {
      if (!is_argument_of_tanh(state, state.value_of(tanh->x), *x, type, steps)) continue;
      found = gelu_tanh(operand_of(*x));
    } else {
      continue;
    }
    return state.is_closed(steps, step) && state.replace(step, std::move(found));
  }
  return false;
}

}  // namespace sluice::models
