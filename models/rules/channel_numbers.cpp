// SPDX-License-Identifier: Apache-2.0
// A factor or a summand for each channel of the result of a convolution becomes a part of its
// filters and bias.
#include "models/rules/filters.hpp"
#include "models/rules/rules.hpp"

#include <algorithm>
#include <cmath>

namespace sluice::models {
namespace {

using numbers = std::vector<double>;

bool are_finite(const numbers& all) {
  return std::all_of(all.begin(), all.end(), [](double x) { return std::isfinite(x); });
}

/// Calls `fold(value, numbers)` for a step whose operands are a convolution and known numbers.
template <class Fold>
bool with_channel_numbers(optimizer& state, std::size_t step, bool is_commutative,
                          const Fold& fold) {
  const auto* const operation = state.operation<binary>(step);
  if (operation == nullptr) return false;
  const auto a = operation->a;
  const auto b = operation->b;
  const auto try_order = [&](const operand_or_number& x, const operand_or_number& parameter) {
    if (!x) return false;
    const auto value = state.value_of(x);
    const auto channels = channels_of_convolution(state, value, step);
    if (!channels || !state.take_elements(*channels)) return false;
    const auto found =
        channel_numbers(state, parameter, *channels, state.graph().spec(value).rank());
    return found && are_finite(*found) && fold(value, *found);
  };
  return try_order(a, b) || (is_commutative && try_order(b, a));
}

}  // namespace

bool fold_channel_factor(optimizer& state, std::size_t step) {
  const auto* const operation = state.operation<binary>(step);
  if (operation == nullptr || operation->function != binary_function::multiply) return false;
  return with_channel_numbers(state, step, true, [&](auto value, const numbers& factors) {
    return scale_convolution(state, value, step, factors, numbers(factors.size()));
  });
}

bool fold_channel_summand(optimizer& state, std::size_t step) {
  const auto* const operation = state.operation<binary>(step);
  if (operation == nullptr) return false;
  const bool is_difference = operation->function == binary_function::subtract;
  if (!is_difference && operation->function != binary_function::add) return false;
  return with_channel_numbers(state, step, !is_difference, [&](auto value, numbers summands) {
    if (is_difference) {
      for (auto& summand : summands) summand = -summand;
    }
    const numbers ones(summands.size(), 1);
    return scale_convolution(state, value, step, ones, summands);
  });
}

}  // namespace sluice::models
