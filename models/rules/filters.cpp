// SPDX-License-Identifier: Apache-2.0
#include "models/rules/filters.hpp"

#include "models/element_types.hpp"
#include "models/host_numbers.hpp"

#include <sluice/operations/convolution.hpp>
#include <sluice/operations/elementwise.hpp>

#include <algorithm>
#include <cmath>
#include <string>
#include <type_traits>
#include <utility>

namespace sluice::models {
namespace {

using number = step_graph::number;

template <class Operation>
constexpr bool is_transposed = std::is_same_v<Operation, transposed_convolution>;

/// Known filters. Those that the import has copied to lie as the images do are a view of the copy,
/// and `order` is that of their dimensions there; see `filters_in_order`.
struct known_filters {
  const host_tensor* elements = nullptr;
  extents order{};
  bool has_order = false;  ///< whether `elements` are in this order, because a rule has made them
};

/// The value of which a value is a permuted view.
std::optional<number> permuted_by(const optimizer& state, number value) {
  const auto& graph = state.graph();
  if (graph.kind(value) != step_graph::value_kind::view) return {};
  const auto& [viewed, what] = graph.view_of(value);
  return what.what == value_view::function::permute ? std::optional(graph.resolve(viewed))
                                                    : std::nullopt;
}
extents inverse(const extents& order) {
  auto result = order;
  for (std::size_t i = 0; i < order.size(); ++i) {
    result[static_cast<std::size_t>(order[i])] = static_cast<std::int64_t>(i);
  }
  return result;
}
known_filters filters_of(const optimizer& state, const operand& w) {
  const auto& graph = state.graph();
  const auto value = state.value_of(w);
  if (const auto* const elements = state.constant_of(value)) return {elements};
  const auto packed = permuted_by(state, value);
  if (!packed) return {};
  const auto order = inverse(graph.view_of(value).what.numbers);
  if (const auto* const elements = state.constant_of(*packed)) return {elements, order, true};
  const auto* const copy = state.maker<strided_copy>(*packed, nullptr);
  const auto source = copy != nullptr ? permuted_by(state, state.value_of(copy->x)) : std::nullopt;
  if (!source || graph.view_of(state.value_of(copy->x)).what.numbers != order) return {};
  return {state.constant_of(*source), order};
}

/// Elements in row-major order of other dimensions.
std::vector<double> permuted(const std::vector<double>& elements, const extents& shape,
                             const extents& order) {
  const auto rank = order.size();
  std::vector<std::size_t> strides(rank, 1);  // of the dimensions of `elements`
  for (auto i = rank; i-- > 1;) strides[i - 1] = strides[i] * static_cast<std::size_t>(shape[i]);
  std::vector<double> result;
  result.reserve(elements.size());
  std::vector<std::int64_t> index(rank);  // in `order`
  for (std::size_t n = 0; n < elements.size(); ++n) {
    std::size_t position = 0;
    for (std::size_t i = 0; i < rank; ++i) {
      position += static_cast<std::size_t>(index[i]) * strides[static_cast<std::size_t>(order[i])];
    }
    result.push_back(elements[position]);
    for (auto i = rank; i-- > 0;) {
      if (++index[i] < shape[static_cast<std::size_t>(order[i])]) break;
      index[i] = 0;
    }
  }
  return result;
}

/// A convolution that adds at most a known bias.
template <class Operation>
const Operation* plain_convolution(const optimizer& state, number value,
                                   std::vector<std::size_t>* steps) {
  const auto* const found = state.maker<Operation>(value, nullptr);
  if (found == nullptr || found->residual || found->activation != activation::none) return nullptr;
  if (filters_of(state, found->w).elements == nullptr) return nullptr;
  if (found->bias && state.constant_of(state.value_of(found->bias)) == nullptr) return nullptr;
  return state.maker<Operation>(value, steps);
}

/// The filters times the factors of the channels that they make.
template <class Operation>
std::vector<double> scaled_filters(std::vector<double> elements, const extents& shape,
                                   std::int64_t groups, const std::vector<double>& factors) {
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
  return elements;
}

/// Whether no finite number becomes infinite in a type.
bool fit(const std::vector<double>& numbers, element_type type) {
  const auto largest = range_of(type).largest;
  return std::all_of(numbers.begin(), numbers.end(),
                     [&](double x) { return !std::isfinite(x) || std::abs(x) <= largest; });
}
/// Whether the numbers times a factor still have all their bits, as far as they count: the largest
/// is no denormal number.
bool keep_bits(const std::vector<double>& numbers, element_type type) {
  double largest = 0;
  for (const auto x : numbers) largest = std::max(largest, std::abs(x));
  return largest == 0 || largest >= range_of(type).smallest;
}

/// Filters in the place of `w`, which lie as these do.
std::optional<operand> placed_filters(optimizer& state, number w, const extents& order,
                                      std::vector<double> elements, const std::string& name) {
  auto& graph = state.graph();
  const auto shape = graph.spec(w).shape;
  const auto type = graph.spec(w).type;
  if (order.size() == 0) {
    return operand_of(graph.add_constant(name, host_tensor(std::move(elements), shape).to(type)));
  }
  extents packed;
  for (const auto dimension : order) packed.push_back(shape[static_cast<std::size_t>(dimension)]);
  const auto constant =
      graph.add_constant(name, host_tensor(permuted(elements, shape, order), packed).to(type));
  const auto back = graph.view_of(w).what;
  const auto view = state.view(constant, back);
  return view ? std::optional(operand_of(*view)) : std::nullopt;
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
  auto bias = found->bias ? reals_in(*state.constant_of(state.value_of(found->bias)))
                          : std::vector<double>(factors.size());
  if (bias.size() != factors.size()) return false;
  for (std::size_t i = 0; i < bias.size(); ++i) bias[i] = bias[i] * factors[i] + summands[i];
  if (!fit(bias, type)) return false;
  if (std::any_of(factors.begin(), factors.end(), [](double factor) { return factor != 1; })) {
    const auto [elements, order, has_order] = filters_of(state, found->w);
    if (!state.take_elements(elements->size())) return false;
    auto numbers = reals_in(*elements);
    if (has_order) numbers = permuted(numbers, elements->shape(), inverse(order));
    numbers =
        scaled_filters<Operation>(std::move(numbers), graph.spec(w).shape, scaled.groups, factors);
    if (!fit(numbers, type) || !keep_bits(numbers, type)) return false;
    const auto filters = placed_filters(state, w, order, std::move(numbers), name + ".w");
    if (!filters) return false;
    scaled.w = *filters;
  }
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
