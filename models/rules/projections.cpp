// SPDX-License-Identifier: Apache-2.0
// The queries, keys and values of an attention are products of one sequence with constant matrices:
// they become parts of one product.
#include "models/rules/rules.hpp"

#include <sluice/operations/attention.hpp>
#include <sluice/operations/blas.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <utility>

namespace sluice::models {
namespace {

using number = step_graph::number;
using function = value_view::function;

/// X · W + bias, seen through views.
struct projection {
  std::vector<value_view> views{};  ///< from the sum to the operand of the attention
  const gemm* product = nullptr;
  number x = 0;
  const host_tensor* weights = nullptr;  ///< [k, n]
  const host_tensor* bias = nullptr;     ///< of n numbers, or nullptr
  std::int64_t columns = 0;              ///< n
  extents shape{};                       ///< of the operand of the attention
  std::vector<std::size_t> steps{};      ///< of the sum, if there is one, then of the product
};

std::int64_t last_extent(const tensor_spec& spec) {
  return spec.rank() == 0 ? 0 : spec.shape[spec.rank() - 1];
}

/// The bias that a constant is; nullptr if it is none.
const host_tensor* bias_of(const optimizer& state, const operand_or_number& summand,
                           std::int64_t columns) {
  if (!summand) return nullptr;
  const auto value = state.value_of(summand);
  const auto* const elements = state.constant_of(value);
  const auto& spec = state.graph().spec(value);
  const bool is_row = elements != nullptr && last_extent(spec) == columns &&
                      elements->size() == static_cast<std::size_t>(columns);
  return is_row ? elements : nullptr;
}

std::optional<projection> projection_of(const optimizer& state, const operand& x) {
  const auto& graph = state.graph();
  projection found;
  auto value = state.value_of(x);
  found.shape = graph.spec(value).shape;
  while (graph.kind(value) == step_graph::value_kind::view) {
    const auto& [viewed, what] = graph.view_of(value);
    found.views.insert(found.views.begin(), what);
    value = graph.resolve(viewed);
  }
  const auto shape = graph.spec(value).shape;
  const auto columns = found.columns = last_extent(graph.spec(value));
  if (const auto* const sum = state.maker(value, binary_function::add, &found.steps)) {
    const auto type = graph.spec(value).type;
    for (const auto& [product, bias] : {std::pair(&sum->a, &sum->b), std::pair(&sum->b, &sum->a)}) {
      if (!*product || state.maker<gemm>(state.value_of(*product), nullptr) == nullptr) continue;
      found.bias = bias_of(state, *bias, columns);
      value = state.value_of(*product);
    }
    if (found.bias == nullptr || found.bias->type() != type) return {};
  }
  found.product = state.maker<gemm>(value, &found.steps);
  const auto* const product = found.product;
  // A sum may be larger than the product, which it repeats.
  if (product == nullptr || graph.spec(value).shape != shape || product->c || product->residual ||
      product->type || product->activation != activation::none ||
      product->new_c != layout::row_major || product->alpha.is_of_program() ||
      (product->bias && found.bias != nullptr)) {
    return {};
  }
  if (product->bias) {
    found.bias = bias_of(state, product->bias, columns);
    if (found.bias == nullptr) return {};
  }
  const auto w = state.value_of(product->b);
  found.weights = state.constant_of(w);
  found.x = state.value_of(product->a);
  const auto& spec = graph.spec(w);
  const bool is_matrix = found.weights != nullptr && spec.rank() == 2 &&
                         found.weights->shape() == spec.shape && spec.shape[1] == columns &&
                         graph.spec(value).rank() == graph.spec(found.x).rank();
  // Parts of the product must be aligned as tensors are for the kernels of an attention.
  constexpr std::int64_t elements_of_alignment = 8;
  return is_matrix && columns % elements_of_alignment == 0 ? std::optional(std::move(found))
                                                           : std::nullopt;
}

bool are_alike(const projection& a, const projection& b) {
  return a.x == b.x && a.product->alpha == b.product->alpha && a.product->math == b.product->math &&
         a.weights->type() == b.weights->type() && (a.bias == nullptr) == (b.bias == nullptr);
}

/// Tensors of `rows` rows, side by side.
host_tensor side_by_side(std::span<const host_tensor* const> parts, std::int64_t rows,
                         const extents& shape) {
  host_tensor joined(parts.front()->type(), shape);
  auto* target = static_cast<std::byte*>(joined.data().get());
  for (std::int64_t row = 0; row < rows; ++row) {
    for (const auto* const part : parts) {
      const auto bytes = part->bytes() / static_cast<std::size_t>(rows);
      const auto* const source = static_cast<const std::byte*>(part->data().get());
      std::memcpy(target, source + static_cast<std::size_t>(row) * bytes, bytes);
      target += bytes;
    }
  }
  return joined;
}

/// One product in the place of several: that of the first of their steps.
class joint_product {
 public:
  joint_product(optimizer& state, std::span<const projection> parts)
      : state_(state), parts_(parts), step_(parts.front().steps.back()) {
    for (const auto& part : parts) step_ = std::min(step_, part.steps.back());
  }

  /// Adds it. Returns what replaces the operands of the attention, or nothing if a part has no such
  /// view. Then nothing is changed.
  std::optional<std::vector<number>> add(const std::string& name) {
    std::vector<const host_tensor*> weights;
    std::vector<const host_tensor*> biases;
    std::int64_t columns = 0;
    for (const auto& part : parts_) {
      weights.push_back(part.weights);
      biases.push_back(part.bias);
      columns += part.columns;
    }
    auto spec = state_.graph().spec(state_.graph().steps()[step_].first_result);
    spec.shape[spec.rank() - 1] = columns;
    spec = tensor_spec::row_major(spec.type, spec.shape);
    const auto rows = weights.front()->shape()[0];
    if (!have_views(spec) || !state_.take_elements(static_cast<std::size_t>(rows * columns)))
      return {};
    auto& graph = state_.graph();
    auto product = *parts_.front().product;
    // New constants move those that the parts refer to.
    auto joint_weights = state_.derived().find_or_make(weights, "side by side", [&] {
      return side_by_side(weights, rows, extents{rows, columns});
    });
    if (biases.front() != nullptr) {
      auto joint_bias = side_by_side(biases, 1, extents{columns});
      product.bias = operand_of(graph.add_constant(name + ".bias", std::move(joint_bias)));
    }
    product.b = operand_of(graph.add_constant(name + ".w", std::move(joint_weights)));
    auto joined = std::make_unique<typed_recorded_operation<gemm>>(std::move(product));
    const auto facts = graph.infer(*joined);
    graph.replace(step_, std::move(joined), facts, part_of(0, spec.rank()));
    const auto whole = graph.steps()[step_].first_result;
    std::vector<number> values;
    for (std::size_t i = 0; i < parts_.size(); ++i) {
      auto value = state_.view(whole, part_of(i, spec.rank())).value();
      for (const auto& what : parts_[i].views) value = state_.view(value, what).value();
      values.push_back(value);
    }
    return values;
  }

 private:
  [[nodiscard]] value_view part_of(std::size_t which, std::size_t rank) const {
    std::int64_t first = 0;
    for (std::size_t i = 0; i < which; ++i) first += parts_[i].columns;
    return {function::slice,
            {static_cast<std::int64_t>(rank) - 1, first, first + parts_[which].columns, 1}};
  }
  [[nodiscard]] bool have_views(const tensor_spec& whole) const {
    for (std::size_t i = 0; i < parts_.size(); ++i) {
      auto spec = part_of(i, whole.rank()).spec_of(whole);
      for (const auto& what : parts_[i].views) {
        if (spec) spec = what.spec_of(*spec);
      }
      // An attention takes any strides.
      if (!spec || spec->shape != parts_[i].shape) return false;
    }
    return true;
  }

  optimizer& state_;
  std::span<const projection> parts_;
  std::size_t step_;
};

}  // namespace

bool join_projections(optimizer& state, std::size_t step) {
  const auto* const heads = state.operation<attention>(step);
  if (heads == nullptr) return false;
  std::vector<operand attention::*> operands{&attention::q, &attention::k, &attention::v};
  std::vector<projection> parts;
  for (const auto member : operands) {
    auto part = projection_of(state, heads->*member);
    if (!part && member == &attention::q) continue;
    if (!part) return false;
    parts.push_back(std::move(*part));
  }
  if (!are_alike(parts[parts.size() - 2], parts.back())) return false;
  // Queries may be of another sequence than keys and values.
  if (parts.size() == 3 && !are_alike(parts.front(), parts.back())) parts.erase(parts.begin());
  if (parts.size() == 2) operands.erase(operands.begin());
  std::vector<std::size_t> steps;
  for (const auto& part : parts) steps.insert(steps.end(), part.steps.begin(), part.steps.end());
  std::sort(steps.begin(), steps.end());
  const bool are_apart = std::adjacent_find(steps.begin(), steps.end()) == steps.end();
  if (!are_apart || !state.is_closed(steps, step)) return false;
  auto with_parts = *heads;
  const auto values = joint_product(state, parts).add(state.graph().steps()[step].name);
  if (!values) return false;
  for (std::size_t i = 0; i < operands.size(); ++i) {
    with_parts.*operands[i] = operand_of((*values)[i]);
  }
  return state.replace(step, std::move(with_parts));
}

}  // namespace sluice::models
