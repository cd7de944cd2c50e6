// SPDX-License-Identifier: Apache-2.0
// Layers with a state that goes from one element of a sequence to the next.
#include "models/join.hpp"
#include "models/operator_table.hpp"

#include <sluice/operations/binary.hpp>
#include <sluice/operations/blas.hpp>
#include <sluice/operations/concatenate.hpp>
#include <sluice/operations/dnn.hpp>
#include <sluice/operations/recurrent.hpp>
#include <sluice/operations/transfer.hpp>
#include <sluice/operations/unary.hpp>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>

namespace sluice::models {

namespace {

/// A convolution of each channel of (B, C, L) that sees no later elements. The state is the last
/// k - 1 elements.
results import_causal_convolution(const node& n) {
  const auto& x = n.input(0);
  const auto& filters = n.input(1);
  if (x.rank() != 3 || filters.rank() != 3) throw n.refusal("input", "has not three dimensions");
  const auto state = filters.extent(2) - 1;
  const auto before =
      n.has_input(3)
          ? n.input(3)
          : n.add(fill{
                .value = 0, .shape = extents{x.extent(0), x.extent(1), state}, .type = x.type()});
  const auto padded = state == 0 ? x : n.add(concatenate{.x = {before, x}, .axis = 2});
  const auto activation = n.attribute("activation", "none");
  const bool silu = activation == "silu" || activation == "swish";
  if (!silu && activation != "none") throw n.unsupported("activation", "is '" + activation + "'");
  const auto y =
      n.add(conv2d{.x = padded.unsqueeze(2),
                   .w = filters.unsqueeze(2),
                   .bias = n.optional_input(2),
                   .geometry = {.groups = x.extent(1)},
                   .activation = silu ? sluice::activation::silu : sluice::activation::none});
  const auto length = padded.extent(2);
  return {n.dense(y).reshape({y.extent(0), y.extent(1), y.extent(3)}),
          padded.slice(2, length - state, length)};
}

/// What the turns of a linear attention read, in f32, of the shapes (B, H, T, D).
struct linear_attention {
  value q;
  value k;
  value v;
  std::optional<value> decay{};
  std::optional<value> beta{};
};
value heads_in_f32(const node& n, const value& x, std::int64_t heads) {
  if (x.rank() != 3 || heads < 1 || x.extent(2) % heads != 0) {
    throw n.refusal("q_num_heads", "does not divide the last dimension");
  }
  const auto split = x.reshape({x.extent(0), x.extent(1), heads, x.extent(2) / heads});
  return n.cast_to(split.permute({0, 2, 1, 3}), element_type::f32);
}
linear_attention read_linear_attention(const node& n, std::int64_t groups) {
  linear_attention read{
      .q = heads_in_f32(n, n.input(0), n.attribute("q_num_heads", std::int64_t{0})),
      .k = heads_in_f32(n, n.input(1), groups),
      .v = heads_in_f32(n, n.input(2), groups)};
  const auto rule = n.attribute("update_rule", "gated_delta");
  if (rule == "gated" || rule == "gated_delta") read.decay = heads_in_f32(n, n.input(4), groups);
  if (rule == "delta" || rule == "gated_delta") {
    read.beta = heads_in_f32(n, n.input(5), n.input(5).extent(2) == 1 ? 1 : groups);
  }
  return read;
}
/// The state of the shape (B, H, D, E) after one element: it decays, and the product of a key and a
/// value is added, of which the value that the state has for the key is subtracted.
value next_state(const node& n, const linear_attention& a, const value& state, std::int64_t turn) {
  const auto row = [&](const value& x) {
    return x.slice(2, turn, turn + 1);
  };
  auto decayed = state;
  if (a.decay) {
    decayed = n.add(multiply(state, n.add(exp(row(*a.decay))).transposed()));
  }
  auto v = row(a.v);
  if (a.beta) {
    const auto known = n.add(gemm{.a = row(a.k), .b = decayed});
    v = n.add(multiply(row(*a.beta), n.add(subtract(v, known))));
  }
  return n.add(add(decayed, n.add(multiply(row(a.k).transposed(), v))));
}
results import_linear_attention(const node& n) {
  const auto groups = n.attribute("kv_num_heads", std::int64_t{0});
  const auto a = read_linear_attention(n, groups);
  const auto batch = a.q.extent(0);
  const auto heads = a.q.extent(1);
  const auto keys = a.k.extent(3);
  const auto values = a.v.extent(3);
  if (heads % groups != 0 || a.q.extent(3) != keys) throw n.refusal("q_num_heads", "does not fit");
  const auto turns = a.q.extent(2);
  if (turns > 1024) throw n.unsupported("query", "more than 1024 turns");
  auto scale = n.attribute("scale", 0.0);
  if (scale == 0) scale = 1 / std::sqrt(static_cast<double>(keys));
  auto state = n.has_input(3)
                   ? n.cast_to(n.input(3), element_type::f32)
                   : n.add(fill{.value = 0, .shape = extents{batch, groups, keys, values}});
  std::vector<value> outputs;
  for (std::int64_t turn = 0; turn < turns; ++turn) {
    state = next_state(n, a, state, turn);
    // The heads of a group share its state.
    const auto q =
        n.dense(a.q.slice(2, turn, turn + 1)).reshape({batch, groups, heads / groups, keys});
    outputs.push_back(n.add(gemm{.a = q, .b = state, .alpha = scale}).reshape({batch, 1, -1}));
  }
  const auto y = concatenate_values(n, std::move(outputs), 1);
  const auto& type = n.has_input(3) ? n.input(3) : n.input(0);
  return {n.cast_to(y, n.input(0).type()), n.cast_to(state, type.type())};
}

/// The function of a layer that `activations` names, or `missing`. All directions have the same.
activation function_of(const node& n, std::size_t number, std::size_t count, activation missing) {
  if (!n.has_attribute("activations")) return missing;
  const auto& names = n.require_attribute("activations").strings();
  const auto name = [&](std::size_t i) {
    return i < static_cast<std::size_t>(names.size()) ? names[static_cast<int>(i)] : std::string();
  };
  for (auto i = number; i < static_cast<std::size_t>(names.size()); i += count) {
    if (name(i) != name(number)) throw n.unsupported("activations", "differ by direction");
  }
  if (name(number) == "Sigmoid") return activation::sigmoid;
  if (name(number) == "Tanh") return activation::tanh;
  if (name(number) == "Relu") return activation::relu;
  throw n.unsupported("activations", "has '" + name(number) + "'");
}

/// The state that an input is. Zeros, which exporters make for one request, are left out: layers of
/// any number of sequences begin with them.
template <class Layer>
operand state_of(const node& n, std::size_t number, const Layer& layer) {
  if (!n.has_input(number)) return {};
  const auto& state = n.input(number);
  if (!state.known() || n.input(0).rank() != 3 || n.input(2).rank() != 3) return state;
  const bool is_time_major = layer.layout == sequence_layout::time_major;
  const auto directions = n.input(2).extent(0);
  const auto batch = n.input(0).extent(is_time_major ? 1 : 0);
  const auto hidden = n.input(2).extent(2);
  const auto shape =
      is_time_major ? extents{directions, batch, hidden} : extents{batch, directions, hidden};
  const auto* const bytes = static_cast<const std::byte*>(state.known().data().get());
  const bool is_zero = std::all_of(bytes, bytes + state.known().bytes(),
                                   [](std::byte b) { return b == std::byte{0}; });
  if (!is_zero || state.shape() != shape || state.type() != n.input(0).type()) return state;
  return {};
}

/// Sets what all layers have.
template <class Layer>
void read_layer(const node& n, Layer& layer) {
  layer.x = n.input(0);
  layer.w = n.input(1);
  layer.r = n.input(2);
  const auto rank = n.input(2).rank();
  const auto size = rank == 0 ? 0 : n.input(2).extent(rank - 1);
  if (n.attribute("hidden_size", size) != size) {
    throw n.refusal("hidden_size", "is not the last extent of R, which is " + std::to_string(size));
  }
  if (n.has_input(3)) {
    const auto& both = n.input(3);
    if (both.rank() != 2) throw n.refusal("B", "has not two dimensions");
    const auto rows = both.extent(1) / 2;
    layer.input_bias = both.slice(1, 0, rows);
    layer.recurrent_bias = both.slice(1, rows, 2 * rows);
  }
  layer.lengths = n.optional_input(4);
  const auto direction = n.attribute("direction", "forward");
  if (direction == "reverse") {
    layer.direction = recurrent_direction::reverse;
  } else if (direction == "bidirectional") {
    layer.direction = recurrent_direction::bidirectional;
  } else if (direction != "forward") {
    throw n.refusal("direction", "is '" + direction + "'");
  }
  if (n.attribute("layout", std::int64_t{0}) != 0) layer.layout = sequence_layout::batch_major;
  layer.initial_h = state_of(n, 5, layer);
  layer.clip = n.attribute("clip", 0.0);
}
results import_lstm(const node& n) {
  lstm layer;
  read_layer(n, layer);
  layer.initial_c = state_of(n, 6, layer);
  layer.peepholes = n.optional_input(7);
  layer.gate_activation = function_of(n, 0, 3, activation::sigmoid);
  layer.cell_activation = function_of(n, 1, 3, activation::tanh);
  layer.output_activation = function_of(n, 2, 3, activation::tanh);
  layer.input_forget = n.attribute("input_forget", std::int64_t{0}) != 0;
  return n.add_all(layer);
}
results import_gru(const node& n) {
  gru layer;
  read_layer(n, layer);
  layer.gate_activation = function_of(n, 0, 2, activation::sigmoid);
  layer.hidden_activation = function_of(n, 1, 2, activation::tanh);
  layer.linear_before_reset = n.attribute("linear_before_reset", std::int64_t{0}) != 0;
  return n.add_all(layer);
}
results import_rnn(const node& n) {
  rnn layer;
  read_layer(n, layer);
  layer.activation = function_of(n, 0, 1, activation::tanh);
  return n.add_all(layer);
}

constexpr std::array recurrent_entries{
    operator_entry{"CausalConvWithState", import_causal_convolution, 27},
    operator_entry{"GRU", import_gru, 7},
    operator_entry{"LSTM", import_lstm, 7},
    operator_entry{"LinearAttention", import_linear_attention, 27},
    operator_entry{"RNN", import_rnn, 7},
};

}  // namespace

std::span<const operator_entry> recurrent_operators() {
  return recurrent_entries;
}

}  // namespace sluice::models
