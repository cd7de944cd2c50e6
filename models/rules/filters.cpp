// SPDX-License-Identifier: Apache-2.0
#include "models/rules/filters.hpp"

#include "models/host_numbers.hpp"

#include <sluice/operations/convolution.hpp>

#include <algorithm>
#include <string>
#include <type_traits>

namespace sluice::models {
namespace {

using number = step_graph::number;

template <class Operation>
constexpr bool is_transposed = std::is_same_v<Operation, transposed_convolution>;

/// A convolution that adds at most a known bias.
template <class Operation>
const Operation* plain_convolution(const optimizer& state, number value,
                                   std::vector<std::size_t>* steps) {
  const auto* const found = state.maker<Operation>(value, nullptr);
  if (found == nullptr || found->residual || found->activation != activation::none) return nullptr;
  if (state.constant_of(state.value_of(found->w)) == nullptr) return nullptr;
  if (found->bias && state.constant_of(state.value_of(found->bias)) == nullptr) return nullptr;
  return state.maker<Operation>(value, steps);
}

/// The filters times the factors of the channels that they make.
template <class Operation>
host_tensor scaled_filters(const host_tensor& w, const extents& shape, std::int64_t groups,
                           const std::vector<double>& factors) {
  auto elements = reals_in(w);
  const auto first = static_cast<std::size_t>(shape[0]);
  const auto second = static_cast<std::size_t>(shape[1]);
  const auto taps = elements.size() / std::max<std::size_t>(first * second, 1);
  const auto inputs_of_group = first / static_cast<std::size_t>(groups);
  for (std::size_t i = 0; i < elements.size(); ++i) {
    auto channel = i / taps / second;
    if constexpr (is_transposed<Operation>) {
      channel = channel / inputs_of_group * second + i / taps % second;
    }
    elements[i] *= factors[channel];
  }
  return host_tensor(std::move(elements), shape).to(w.type());
}

template <class Operation>
bool scale(optimizer& state, number value, std::size_t step, const std::vector<double>& factors,
           const std::vector<double>& summands) {
  const auto* const found = plain_convolution<Operation>(state, value, nullptr);
  if (found == nullptr) return false;
  auto scaled = *found;
  auto& graph = state.graph();
  const auto& name = graph.steps()[step].name;
  const auto w = state.value_of(found->w);
  const auto type = graph.spec(w).type;
  if (std::any_of(factors.begin(), factors.end(), [](double factor) { return factor != 1; })) {
    const auto* const elements = state.constant_of(w);
    if (!state.take_elements(elements->size())) return false;
    scaled.w = operand_of(graph.add_constant(
        name + ".w",
        scaled_filters<Operation>(*elements, graph.spec(w).shape, found->groups, factors)));
  }
  auto bias = found->bias ? reals_in(*state.constant_of(state.value_of(found->bias)))
                          : std::vector<double>(factors.size());
  if (bias.size() != factors.size()) return false;
  for (std::size_t i = 0; i < bias.size(); ++i) bias[i] = bias[i] * factors[i] + summands[i];
  scaled.bias = operand_of(graph.add_constant(
      name + ".bias",
      host_tensor(std::move(bias), {static_cast<std::int64_t>(factors.size())}).to(type)));
  return state.replace(step, std::move(scaled));
}

template <class Operation>
std::optional<std::size_t> channels_of(const optimizer& state, number value, std::size_t step) {
  std::vector<std::size_t> steps;
  const auto* const found = plain_convolution<Operation>(state, value, &steps);
  if (found == nullptr || !state.is_closed(steps, step)) return {};
  return static_cast<std::size_t>(state.graph().spec(value).shape[1]);
}

}  // namespace

std::optional<std::size_t> channels_of_convolution(const optimizer& state, number value,
                                                   std::size_t step) {
  if (auto found = channels_of<convolution>(state, value, step)) return found;
  return channels_of<transposed_convolution>(state, value, step);
}

bool scale_convolution(optimizer& state, number value, std::size_t step,
                       const std::vector<double>& factors, const std::vector<double>& summands) {
  return scale<convolution>(state, value, step, factors, summands) ||
         scale<transposed_convolution>(state, value, step, factors, summands);
}

std::optional<std::vector<double>> channel_numbers(const optimizer& state,
                                                   const operand_or_number& x, std::size_t channels,
                                                   std::size_t rank) {
  if (const auto constant = state.number_of(x)) return std::vector<double>(channels, *constant);
  if (!x) return {};
  const auto value = state.value_of(x);
  const auto* const elements = state.constant_of(value);
  const auto& shape = state.graph().spec(value).shape;
  if (elements == nullptr || elements->size() != channels || shape.size() > rank ||
      !is_real(elements->type())) {
    return {};
  }
  for (std::size_t i = 0; i < shape.size(); ++i) {
    const bool is_channel = i + rank - shape.size() == 1;
    if (!is_channel && shape[i] != 1) return {};
  }
  return reals_in(*elements);
}

}  // namespace sluice::models
