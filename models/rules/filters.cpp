// SPDX-License-Identifier: Apache-2.0
#include "models/rules/filters.hpp"

#include "models/element_types.hpp"
#include "models/host_numbers.hpp"

#include <sluice/operations/convolution.hpp>
#include <sluice/operations/elementwise.hpp>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <limits>
#include <span>
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

/// The extents of a shape in another order of dimensions.
extents in_order(const extents& shape, const extents& order) {
  extents result;
  for (const auto dimension : order) result.push_back(shape[static_cast<std::size_t>(dimension)]);
  return result;
}

/// Elements of type `T` in row-major order of other dimensions.
template <class T>
void permute(const std::byte* source, const extents& shape, const extents& order,
             std::byte* target) {
  const auto rank = order.size();
  std::vector<std::size_t> strides(rank, sizeof(T));  // of the dimensions of the source, in bytes
  for (auto i = rank; i-- > 1;) strides[i - 1] = strides[i] * static_cast<std::size_t>(shape[i]);
  const auto target_shape = in_order(shape, order);
  const auto count = tensor_spec::row_major(element_type::u8, shape).size();
  std::vector<std::int64_t> index(rank);  // in the target
  for (std::size_t n = 0; n < count; ++n, target += sizeof(T)) {
    std::memcpy(target, source, sizeof(T));
    for (auto i = rank; i-- > 0;) {
      const auto stride = strides[static_cast<std::size_t>(order[i])];
      source += stride;
      if (++index[i] < target_shape[i]) break;
      source -= stride * static_cast<std::size_t>(target_shape[i]);
      index[i] = 0;
    }
  }
}
host_tensor permuted(const host_tensor& elements, const extents& order) {
  const auto& shape = elements.shape();
  host_tensor result(elements.type(), in_order(shape, order));
  const auto* const source = static_cast<const std::byte*>(elements.data().get());
  auto* const target = static_cast<std::byte*>(result.data().get());
  switch (size_of(elements.type())) {
    case 1:
      permute<std::uint8_t>(source, shape, order, target);
      break;
    case 2:
      permute<std::uint16_t>(source, shape, order, target);
      break;
    case 4:
      permute<std::uint32_t>(source, shape, order, target);
      break;
    default:
      permute<std::uint64_t>(source, shape, order, target);
      break;
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

/// The factors of filters, one after the other as the filters lie in memory.
template <class Operation>
class filter_factors {
 public:
  /// `order` is that of the dimensions in memory.
  filter_factors(const extents& shape, const extents& order, std::int64_t groups,
                 const std::vector<double>& factors)
      : second_(shape[1]), inputs_of_group_(shape[0] / groups), factors_(factors) {
    for (std::size_t i = 0; i < order.size(); ++i) {
      if (order[i] == 0) first_position_ = i;
      if (order[i] == 1) second_position_ = i;
    }
    extents_in_memory_ = in_order(shape, order);
    // Neighbours in memory have one channel, up to a dimension on which it depends.
    const auto last =
        is_transposed<Operation> ? std::max(first_position_, second_position_) : first_position_;
    outer_ = last + 1;
    for (auto i = outer_; i < order.size(); ++i) {
      run_ *= static_cast<std::size_t>(extents_in_memory_[i]);
    }
    index_.resize(outer_);
    left_ = run_;
  }
  /// Multiplies the numbers that follow.
  void multiply(std::span<double> numbers) {
    for (std::size_t i = 0; i < numbers.size();) {
      const auto end = i + std::min(left_, numbers.size() - i);
      left_ -= end - i;
      const auto factor = factors_[channel()];
      for (; i < end; ++i) numbers[i] *= factor;
      if (left_ == 0) advance();
    }
  }

 private:
  [[nodiscard]] std::size_t channel() const {
    const auto first = index_[first_position_];
    if constexpr (is_transposed<Operation>) {
      return static_cast<std::size_t>(first / inputs_of_group_ * second_ +
                                      index_[second_position_]);
    } else {
      return static_cast<std::size_t>(first);
    }
  }
  void advance() {
    left_ = run_;
    for (auto i = outer_; i-- > 0;) {
      if (++index_[i] < extents_in_memory_[i]) return;
      index_[i] = 0;
    }
  }

  std::int64_t second_;
  std::int64_t inputs_of_group_;
  const std::vector<double>& factors_;
  extents extents_in_memory_{};
  std::size_t first_position_ = 0;
  std::size_t second_position_ = 0;
  std::size_t outer_ = 0;  // the number of dimensions of `index_`
  std::size_t run_ = 1;
  std::size_t left_ = 0;  // of the run
  std::vector<std::int64_t> index_;
};

/// The largest magnitude of the finite numbers; 0 if there are none.
double largest_magnitude(std::span<const double> numbers) {
  // Several of them, so that no comparison waits for the one before.
  std::array<double, 8> largest{};
  std::size_t i = 0;
  const auto look_at = [&](double& so_far, double x) {
    const auto magnitude = std::abs(x);
    const bool is_finite = magnitude <= std::numeric_limits<double>::max();
    so_far = is_finite && magnitude > so_far ? magnitude : so_far;
  };
  for (; i + largest.size() <= numbers.size(); i += largest.size()) {
    for (std::size_t k = 0; k < largest.size(); ++k) look_at(largest[k], numbers[i + k]);
  }
  for (; i < numbers.size(); ++i) look_at(largest[0], numbers[i]);
  return *std::max_element(largest.begin(), largest.end());
}
/// Whether no finite number becomes infinite in a type.
bool fit(std::span<const double> numbers, element_type type) {
  return largest_magnitude(numbers) <= range_of(type).largest;
}

/// Filters in the place of `w`, which lie as these do; `elements` are in the order of memory.
std::optional<operand> placed_filters(optimizer& state, number w, const extents& order,
                                      host_tensor elements, const std::string& name) {
  auto& graph = state.graph();
  const auto constant = graph.add_constant(name, std::move(elements));
  if (order.size() == 0) return operand_of(constant);
  const auto back = graph.view_of(w).what;
  const auto view = state.view(constant, back);
  return view ? std::optional(operand_of(*view)) : std::nullopt;
}

/// Filters of this shape times the factors of the channels that they make. `order` is that of their
/// dimensions in memory. No tensor if a number becomes infinite, or the largest of them is a
/// denormal number, which has lost bits.
template <class Operation>
host_tensor scaled_in_order(const host_tensor& filters, const extents& shape, const extents& order,
                            std::int64_t groups, const std::vector<double>& factors) {
  constexpr std::size_t block = std::size_t{1} << 14U;  // f64 in the cache
  const auto type = filters.type();
  host_tensor result(type, in_order(shape, order));
  auto* target = static_cast<std::byte*>(result.data().get());
  filter_factors<Operation> factors_in_memory(shape, order, groups, factors);
  double largest = 0;
  for (std::size_t first = 0; first < filters.size(); first += block) {
    auto numbers = reals_in(filters, first, std::min(block, filters.size() - first));
    factors_in_memory.multiply(numbers);
    const auto largest_in_block = largest_magnitude(numbers);
    if (largest_in_block > range_of(type).largest) return {};
    largest = std::max(largest, largest_in_block);
    const auto rounded = host_tensor(std::move(numbers)).to(type);
    std::memcpy(target, rounded.data().get(), rounded.bytes());
    target += rounded.bytes();
  }
  return largest == 0 || largest >= range_of(type).smallest ? result : host_tensor();
}

/// The filters `w` times the factors of the channels that they make, in the order of their
/// dimensions in memory. Another program of the model may have computed them. No tensor if they
/// do not fit.
template <class Operation>
host_tensor scaled_elements(optimizer& state, number w, std::int64_t groups,
                            const known_filters& filters, const std::vector<double>& factors) {
  const auto& spec = state.graph().spec(w);
  const auto& shape = spec.shape;
  const auto make = [&]() -> host_tensor {
    extents order(filters.has_order ? filters.order : extents());
    for (std::int64_t i = 0; order.size() < shape.size(); ++i) order.push_back(i);
    auto scaled = scaled_in_order<Operation>(*filters.elements, shape, order, groups, factors);
    if (!scaled || filters.has_order || filters.order.size() == 0) return scaled;
    return permuted(scaled, filters.order);
  };
  std::string derivation = is_transposed<Operation> ? "transposed filters " : "filters ";
  derivation += to_string(shape) + to_string(filters.order) +
                (filters.has_order ? " from it " : " ") + std::to_string(groups) + ' ' +
                std::string(to_string(spec.type)) + " times ";
  derivation.append(reinterpret_cast<const char*>(factors.data()),
                    factors.size() * sizeof(factors.front()));
  return state.derived().find_or_make(*filters.elements, derivation, make);
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
    const auto filters = filters_of(state, found->w);
    if (!state.take_elements(filters.elements->size())) return false;
    auto elements = scaled_elements<Operation>(state, w, scaled.groups, filters, factors);
    if (!elements) return false;
    const auto placed = placed_filters(state, w, filters.order, std::move(elements), name + ".w");
    if (!placed) return false;
    scaled.w = *placed;
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
