// SPDX-License-Identifier: Apache-2.0
// A layer norm or RMS norm, times a scale, plus a bias.
#include "models/rules/rules.hpp"

#include <sluice/operations/normalization.hpp>

#include <algorithm>

namespace sluice::models {
namespace {

using number = step_graph::number;

/// A constant as a parameter for the dimensions from `axis` on of a value of `rank` dimensions.
/// Nothing if it depends on others. A parameter that is no constant might differ between requests.
std::optional<number> parameter_from(optimizer& state, number value, std::int64_t axis,
                                     std::size_t rank) {
  const auto& graph = state.graph();
  if (graph.kind(graph.root(value)) != step_graph::value_kind::constant) return {};
  const auto shape = graph.spec(value).shape;
  const auto most = rank - static_cast<std::size_t>(axis);
  if (shape.size() == 0) return {};
  if (shape.size() <= most) return value;
  const auto first = shape.begin() + static_cast<std::ptrdiff_t>(shape.size() - most);
  if (!std::all_of(shape.begin(), first, [](auto extent) { return extent == 1; })) return {};
  extents rest;
  for (auto extent = first; extent != shape.end(); ++extent) rest.push_back(*extent);
  return state.view(value, {value_view::function::reshape, rest});
}

/// The result of a norm that only this step reads, and the other operand of the step.
template <class Norm>
struct norm_operands {
  const Norm* norm = nullptr;
  std::size_t step = 0;
  number other = 0;
};
template <class Norm>
norm_operands<Norm> norm_in(const optimizer& state, std::size_t step, binary_function function) {
  const auto* const operation = state.operation<binary>(step);
  if (operation == nullptr || operation->function != function) return {};
  if (!operation->a || !operation->b) return {};
  const auto a = state.value_of(operation->a);
  const auto b = state.value_of(operation->b);
  for (const auto& [x, other] : {std::pair(a, b), std::pair(b, a)}) {
    std::vector<std::size_t> steps;
    const auto* const norm = state.maker<Norm>(x, &steps);
    if (norm != nullptr && state.is_closed(steps, step)) return {norm, steps.front(), other};
  }
  return {};
}

template <class Norm, class Operand>
bool add_parameter(optimizer& state, std::size_t step, binary_function function,
                   Operand Norm::*member) {
  const auto [norm, norm_step, other] = norm_in<Norm>(state, step, function);
  if (norm == nullptr || norm->*member) return false;
  auto extended = *norm;
  const auto rank = state.graph().spec(state.value_of(norm->x)).rank();
  const auto axis = norm->axis < 0 ? norm->axis + static_cast<std::int64_t>(rank) : norm->axis;
  const auto parameter = parameter_from(state, other, axis, rank);
  if (!parameter) return false;
  extended.*member = operand_of(*parameter);
  return state.replace(step, std::move(extended));
}

}  // namespace

bool add_norm_scale(optimizer& state, std::size_t step) {
  const auto function = binary_function::multiply;
  const auto with_bias = norm_in<layer_norm>(state, step, function);
  if (with_bias.norm != nullptr && with_bias.norm->bias) return false;
  return add_parameter(state, step, function, &layer_norm::scale) ||
         add_parameter(state, step, function, &rms_norm::scale);
}
bool add_norm_bias(optimizer& state, std::size_t step) {
  return add_parameter(state, step, binary_function::add, &layer_norm::bias);
}

}  // namespace sluice::models
