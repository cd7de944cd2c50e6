// SPDX-License-Identifier: Apache-2.0
#include "models/element_types.hpp"
#include "models/operator_table.hpp"

#include <sluice/operations/attention.hpp>
#include <sluice/operations/binary.hpp>
#include <sluice/operations/blas.hpp>
#include <sluice/operations/concatenate.hpp>
#include <sluice/operations/elementwise.hpp>
#include <sluice/operations/movement.hpp>
#include <sluice/operations/normalization.hpp>
#include <sluice/operations/reduce.hpp>
#include <sluice/operations/rotary_embedding.hpp>
#include <sluice/operations/unary.hpp>

#include <array>
#include <cmath>
#include <limits>

namespace sluice::models {

namespace {

constexpr auto minus_infinity = -std::numeric_limits<double>::infinity();

/// (B, S, H · D) as (B, H, S, D).
value split_heads(const node& n, const value& x, const char* heads) {
  if (x.rank() == 4) return x;
  const auto count = n.attribute(heads, std::int64_t{0});
  if (x.rank() != 3 || count < 1 || x.extent(2) % count != 0) {
    throw n.refusal(heads, "does not divide the last dimension of an input of three dimensions");
  }
  return x.reshape({x.extent(0), x.extent(1), count, x.extent(2) / count}).permute({0, 2, 1, 3});
}
/// An input that goes on after a cache of earlier ones.
value after_cache(const node& n, const value& x, std::size_t past) {
  if (!n.has_input(past)) return x;
  return n.add(concatenate{.x = {n.input(past), x}, .axis = 2});
}

/// The operands of a node, and the masks that it combines.
struct attention_heads {
  value q;
  value k;
  value v;
  std::int64_t past = 0;  ///< elements of the cache before K
  [[nodiscard]] std::int64_t queries() const { return q.extent(2); }
  [[nodiscard]] std::int64_t keys() const { return k.extent(2); }
};
attention_heads read_heads(const node& n) {
  const auto k = split_heads(n, n.input(1), "kv_num_heads");
  const auto v = split_heads(n, n.input(2), "kv_num_heads");
  return {.q = split_heads(n, n.input(0), "q_num_heads"),
          .k = after_cache(n, k, 4),
          .v = after_cache(n, v, 5),
          .past = n.has_input(4) ? n.input(4).extent(2) : 0};
}

/// The mask of the node. Keys that it leaves out are hidden.
std::optional<value> mask_of(const node& n, const attention_heads& h) {
  if (!n.has_input(3)) return std::nullopt;
  const auto& mask = n.input(3);
  const auto last = mask.rank() == 0 ? h.keys() : mask.extent(mask.rank() - 1);
  if (last >= h.keys()) return mask;
  pad longer{.x = mask};
  if (mask.type() != element_type::boolean) longer.value = minus_infinity;
  for (std::size_t i = 0; i < mask.rank(); ++i) {
    longer.before.push_back(0);
    longer.after.push_back(i + 1 == mask.rank() ? h.keys() - last : 0);
  }
  return n.add(std::move(longer));
}

bool is_causal(const node& n) {
  return n.attribute("is_causal", std::int64_t{0}) != 0;
}

/// Which keys a query may see because of their positions: a boolean that can be broadcast to
/// (B, 1, N, M), or nothing if it may see all of them. The operation itself may have a causal mask.
std::optional<value> visible_positions(const node& n, const attention_heads& h,
                                       bool operation_is_causal) {
  const auto i64 = element_type::i64;
  const bool has_window = n.attribute("left_window_size", std::int64_t{-1}) >= 0 ||
                          n.attribute("right_window_size", std::int64_t{-1}) >= 0;
  if (!(is_causal(n) && !operation_is_causal) && !has_window && !n.has_input(6)) return {};
  std::optional<value> visible;
  const auto require = [&](const value& condition) {
    visible = visible ? n.add(logical_and(*visible, condition)) : condition;
  };
  const auto key = n.add(range{.limit = h.keys(), .type = i64});
  auto query = n.add(range{.limit = h.queries(), .type = i64}).reshape({-1, 1});
  std::optional<value> lengths;
  if (n.has_input(6)) {
    lengths = n.cast_to(n.input(6), i64).reshape({-1, 1, 1, 1});
    const auto first = n.number(i64, -static_cast<double>(h.queries()));
    query = n.add(add(query, n.add(add(*lengths, first))));
  } else if (h.past != 0) {
    query = n.add(add(query, n.number(i64, static_cast<double>(h.past))));
  }
  if (is_causal(n) && !operation_is_causal) require(n.add(less_equal(key, query)));
  const auto near = [&](const char* name, const value& later, const value& earlier) {
    const auto width = n.attribute(name, std::int64_t{-1});
    if (width < 0) return;
    const auto distance = n.add(subtract(later, earlier));
    require(n.add(less_equal(distance, n.number(i64, static_cast<double>(width)))));
  };
  near("left_window_size", query, key);
  near("right_window_size", key, query);
  if (lengths) require(n.add(less(key, *lengths)));
  return visible;
}

/// What is added to the scores: the mask of the node where keys are visible, elsewhere -infinity.
std::optional<value> bias_of(const node& n, const attention_heads& h,
                             bool operation_is_causal = false) {
  auto mask = mask_of(n, h);
  auto visible = visible_positions(n, h, operation_is_causal);
  if (!visible) return mask;
  if (!mask) return visible;
  if (mask->type() == element_type::boolean) return n.add(logical_and(*mask, *visible));
  return n.add(
      where{.condition = *visible, .a = *mask, .b = n.number(mask->type(), minus_infinity)});
}

/// Y, and the scores at the stage that the node asks for, computed step by step.
std::pair<value, value> by_steps(const node& n, const attention_heads& h, double scale) {
  const auto type = h.q.type();
  const auto batch = h.q.extent(0);
  const auto groups = h.k.extent(1);
  const auto shared = h.q.extent(1) / groups;
  const auto grouped = [&](const value& x) {
    return x.reshape({batch, groups, x.extent(1) / groups, x.extent(2), x.extent(3)});
  };
  const extents shape{batch, h.q.extent(1), h.queries(), h.keys()};
  auto scores =
      n.add(gemm{.a = grouped(h.q), .b = grouped(h.k).transposed(), .alpha = scale}).reshape(shape);
  const auto softcap = n.attribute("softcap", 0.0);
  const auto mode = n.attribute("qk_matmul_output_mode", std::int64_t{0});
  auto stage = scores;
  if (softcap > 0) {
    const auto cap = n.number(type, softcap);
    scores = n.add(multiply(n.add(tanh(n.add(divide(scores, cap)))), cap));
    if (mode != 0) stage = scores;
  }
  auto bias = bias_of(n, h);
  if (bias && bias->type() == element_type::boolean) {
    bias = n.add(
        where{.condition = *bias, .a = n.number(type, 0), .b = n.number(type, minus_infinity)});
  }
  if (bias) scores = n.add(add(scores, *bias));
  if (mode == 2) stage = scores;
  const auto precision = n.attribute("softmax_precision", std::int64_t{0});
  if (precision != 0) scores = n.cast_to(scores, require_element_type(precision));
  auto weights = n.cast_to(n.add(softmax{.x = scores}), type);
  if (bias) {  // A query that sees no key has no weights.
    const auto best =
        n.add(reduce{.x = *bias, .kind = reduction::max, .axes = {-1}, .keep_dims = true});
    const auto hidden = n.add(equal(best, n.number(type, minus_infinity)));
    weights = n.add(where{.condition = hidden, .a = n.number(type, 0), .b = weights});
  }
  if (mode == 3) stage = weights;
  const auto y = n.add(gemm{.a = weights.reshape({batch, groups, shared, h.queries(), h.keys()}),
                            .b = grouped(h.v)})
                     .reshape({batch, h.q.extent(1), h.queries(), h.v.extent(3)});
  return {y, stage};
}

results import_attention(const node& n) {
  const auto h = read_heads(n);
  if (h.k.extent(1) == 0 || h.q.extent(1) % h.k.extent(1) != 0)
    throw n.refusal("K", "its heads do not divide those of Q");
  const auto scale = n.attribute("scale", 1 / std::sqrt(static_cast<double>(h.q.extent(3))));
  const bool fused = n.attribute("softcap", 0.0) <= 0 && !n.has_output(3) &&
                     h.q.type() != element_type::f64 && scale != 0;
  std::optional<value> y;
  std::optional<value> stage;
  if (fused) {
    attention operation{.q = h.q, .k = h.k, .v = h.v, .scale = scale};
    // Query i sees the keys up to i, if no cache and no lengths put the queries elsewhere.
    const bool at_start = is_causal(n) && h.past == 0 && !n.has_input(6);
    if (at_start) operation.causal = causal_mask::top_left;
    if (const auto bias = bias_of(n, h, at_start)) operation.mask = *bias;
    y = n.add(std::move(operation));
  } else {
    const auto [result, scores] = by_steps(n, h, scale);
    y = result;
    stage = scores;
  }
  if (n.input(0).rank() == 3) {
    y = n.dense(y->permute({0, 2, 1, 3})).reshape({h.q.extent(0), h.queries(), -1});
  }
  results all(*y);
  all.push_back(h.k);
  all.push_back(h.v);
  if (stage) all.push_back(*stage);
  return all;
}
results import_rotary_embedding(const node& n) {
  return n.add(rotary_embedding{.x = n.input(0),
                                .cos = n.input(1),
                                .sin = n.input(2),
                                .positions = n.optional_input(3),
                                .heads = n.attribute("num_heads", std::int64_t{0}),
                                .rotated = n.attribute("rotary_embedding_dim", std::int64_t{0}),
                                .interleaved = n.attribute("interleaved", std::int64_t{0}) != 0});
}

constexpr std::array attention_entries{
    operator_entry{"Attention", import_attention, 23},
    operator_entry{"RotaryEmbedding", import_rotary_embedding, 23},
};

}  // namespace

std::span<const operator_entry> attention_operators() {
  return attention_entries;
}

}  // namespace sluice::models
