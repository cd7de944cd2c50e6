// SPDX-License-Identifier: Apache-2.0
// softmax(Q · Kᵀ · scale + mask) · V
#include "models/rules/monomial.hpp"
#include "models/rules/rules.hpp"

#include <sluice/operations/attention.hpp>
#include <sluice/operations/blas.hpp>
#include <sluice/operations/normalization.hpp>

#include <cmath>

namespace sluice::models {
namespace {

using number = step_graph::number;

/// A product of matrices times a number; nullptr if the gemm does more.
const gemm* plain_product(const optimizer& state, number value, std::vector<std::size_t>* steps) {
  const auto* const product = state.maker<gemm>(value, nullptr);
  const bool is_plain = product != nullptr && !product->c && !product->bias && !product->residual &&
                        product->activation == activation::none &&
                        product->new_c == layout::row_major && !product->type &&
                        !product->alpha.is_of_program();
  return is_plain ? state.maker<gemm>(value, steps) : nullptr;
}

/// A value times a number, which only one step reads.
struct scaled_value {
  number value = 0;
  double factor = 1;
};
scaled_value without_factor(const optimizer& state, number value, std::vector<std::size_t>& steps) {
  const auto product = monomial_of(state, value);
  if (product.steps.empty() || product.powers.size() != 1 || product.powers.begin()->second != 1 ||
      !std::isfinite(product.factor)) {
    return {state.graph().resolve(value), 1};
  }
  steps.insert(steps.end(), product.steps.begin(), product.steps.end());
  return {product.powers.begin()->first, product.factor};
}

/// The parts of scores.
struct score_parts {
  number q = 0;
  number k_transposed = 0;
  double scale = 1;
  std::optional<number> mask{};
};

std::optional<score_parts> parts_of_product(const optimizer& state, number value,
                                            std::vector<std::size_t>& steps) {
  const auto scaled = without_factor(state, value, steps);
  const auto* const product = plain_product(state, scaled.value, &steps);
  if (product == nullptr) return {};
  const auto q = without_factor(state, state.value_of(product->a), steps);
  const auto k = without_factor(state, state.value_of(product->b), steps);
  const auto alpha = product->alpha.to<double>("alpha");
  return score_parts{
      .q = q.value, .k_transposed = k.value, .scale = scaled.factor * q.factor * k.factor * alpha};
}

std::optional<score_parts> parts_of_scores(const optimizer& state, number value,
                                           std::vector<std::size_t>& steps) {
  auto found_steps = steps;
  if (auto found = parts_of_product(state, value, found_steps)) {
    steps = std::move(found_steps);
    return found;
  }
  const auto* const sum = state.maker(value, binary_function::add, &steps);
  if (sum == nullptr || !sum->a || !sum->b) return {};
  const auto a = state.value_of(sum->a);
  const auto b = state.value_of(sum->b);
  for (const auto& [scores, mask] : {std::pair(a, b), std::pair(b, a)}) {
    found_steps = steps;
    auto found = parts_of_product(state, scores, found_steps);
    // The sum has the shape of the scores.
    if (!found || state.graph().spec(scores).shape != state.graph().spec(value).shape) continue;
    steps = std::move(found_steps);
    found->mask = mask;
    return found;
  }
  return {};
}

/// A value with four dimensions: its own, or those of (B, N, D) as (B, 1, N, D).
std::optional<number> with_heads(optimizer& state, number value, std::size_t rank) {
  const auto shape = state.graph().spec(value).shape;
  if (shape.size() != rank) return {};
  if (rank == 4) return value;
  return state.view(value, {value_view::function::reshape, {shape[0], 1, shape[1], shape[2]}});
}
/// A mask of up to three dimensions aligns at the last one, so those of (B, N, M) need a 1.
std::optional<number> mask_with_heads(optimizer& state, number mask, std::size_t rank) {
  return rank == 3 && state.graph().spec(mask).rank() == 3 ? with_heads(state, mask, 3)
                                                           : std::optional(mask);
}

/// Whether Q, K and V have the same batches and heads.
bool fit(const tensor_spec& q, const tensor_spec& k, const tensor_spec& v) {
  for (std::size_t i = 0; i + 2 < q.rank(); ++i) {
    if (q.shape[i] != k.shape[i] || q.shape[i] != v.shape[i]) return false;
  }
  return true;
}

}  // namespace

bool recognize_attention(optimizer& state, std::size_t step) {
  if (state.operation<gemm>(step) == nullptr) return false;
  const auto result = state.graph().steps()[step].first_result;
  const auto* const product = plain_product(state, result, nullptr);
  if (product == nullptr || product->alpha != scalar(1)) return false;
  const auto v = state.value_of(product->b);
  const auto spec = state.graph().spec(result);  // views move those of the graph
  const auto rank = spec.rank();
  if ((rank != 3 && rank != 4) || spec.type == element_type::f64 || !is_real(spec.type))
    return false;
  std::vector<std::size_t> steps;
  const auto* const weights = state.maker<softmax>(state.value_of(product->a), &steps);
  const auto last = static_cast<std::int64_t>(rank) - 1;
  if (weights == nullptr || (weights->axis != -1 && weights->axis != last)) return false;
  const auto parts = parts_of_scores(state, state.value_of(weights->x), steps);
  // The operation has it in f32.
  if (!parts || !std::isnormal(static_cast<float>(parts->scale))) return false;
  if (!state.is_closed(steps, step)) return false;
  extents swapped;
  for (std::size_t i = 0; i + 2 < rank; ++i) swapped.push_back(static_cast<std::int64_t>(i));
  swapped.push_back(last);
  swapped.push_back(last - 1);
  const auto k = state.view(parts->k_transposed, {value_view::function::permute, swapped});
  if (!k || state.graph().spec(parts->q).rank() != rank || state.graph().spec(*k).rank() != rank ||
      state.graph().spec(v).rank() != rank ||
      !fit(state.graph().spec(parts->q), state.graph().spec(*k), state.graph().spec(v))) {
    return false;
  }
  const auto q4 = with_heads(state, parts->q, rank);
  const auto k4 = with_heads(state, *k, rank);
  const auto v4 = with_heads(state, v, rank);
  if (!q4 || !k4 || !v4) return false;
  attention found{
      .q = operand_of(*q4), .k = operand_of(*k4), .v = operand_of(*v4), .scale = parts->scale};
  if (parts->mask) {
    const auto mask = mask_with_heads(state, *parts->mask, rank);
    if (!mask) return false;
    found.mask = operand_of(*mask);
  }
  if (rank == 4) return state.replace(step, std::move(found));
  return state.replace(step, std::move(found), {value_view::function::reshape, spec.shape});
}

}  // namespace sluice::models
