// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "tests/operations/elementwise/elements.hpp"

#include <sluice/operations/recurrent.hpp>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <string_view>
#include <type_traits>
#include <vector>

// Recurrent layers by the equations of ONNX (LSTM, GRU and RNN of opset 22), in double precision.
namespace sluice::test {

/// The extents of a layer.
struct recurrent_shape {
  std::int64_t steps = 1;
  std::int64_t batch = 1;
  std::int64_t input = 1;
  std::int64_t hidden = 1;
};

/// The operands of a layer. Those that are not given are nullptr.
struct recurrent_operands {
  const elements* x = nullptr;
  const elements* w = nullptr;
  const elements* r = nullptr;
  const elements* input_bias = nullptr;
  const elements* recurrent_bias = nullptr;
  const elements* lengths = nullptr;
  const elements* initial_h = nullptr;
  const elements* initial_c = nullptr;
  const elements* peepholes = nullptr;
};

/// A number as an element of a type holds it.
inline double rounded(element_type type, double value) {
  switch (type) {
    case element_type::f16:
      return static_cast<double>(static_cast<float>(f16(static_cast<float>(value))));
    case element_type::bf16:
      return static_cast<double>(static_cast<float>(bf16(static_cast<float>(value))));
    case element_type::f32:
      return static_cast<double>(static_cast<float>(value));
    default:
      return value;
  }
}

inline double function_of(activation f, double x) {
  switch (f) {
    case activation::none:
      return x;
    case activation::relu:
      return std::isnan(x) ? x : std::max(x, 0.0);
    case activation::gelu:
      return x * std::erfc(-x / std::sqrt(2.0)) / 2;
    case activation::gelu_tanh:
      return x * (1 + std::tanh(std::sqrt(2 / M_PI) * (x + 0.044715 * x * x * x))) / 2;
    case activation::silu:
      return x / (1 + std::exp(-x));
    case activation::sigmoid:
      return 1 / (1 + std::exp(-x));
    case activation::tanh:
      return std::tanh(x);
  }
  return 0;
}

/// The results of a layer, in the layout `time_major`.
template <class Operation>
class recurrent_reference {
 public:
  recurrent_reference(const Operation& op, const recurrent_shape& s, const recurrent_operands& in)
      : op_(op),
        s_(s),
        in_(in),
        directions_(in.w->view().shape()[0]),
        rows_(in.w->view().shape()[1]) {
    const auto states = static_cast<std::size_t>(directions_ * s.batch * s.hidden);
    for_each_index({s.steps, s.batch, s.input}, [&](const extents& i) {
      x_.push_back(number_of(*in.x, is_time_major() ? i : extents{i[1], i[0], i[2]}));
    });
    for_each_index({directions_, rows_, s.input},
                   [&](const extents& i) { w_.push_back(number_of(*in.w, i)); });
    for_each_index({directions_, rows_, s.hidden},
                   [&](const extents& i) { r_.push_back(number_of(*in.r, i)); });
    y.resize(states * static_cast<std::size_t>(s.steps));
    is_beyond.resize(y.size(), true);
    h.resize(states);
    c.resize(states);
    for (std::int64_t d = 0; d < directions_; ++d) {
      for (std::int64_t n = 0; n < s.batch; ++n) run(d, n);
    }
  }

  std::vector<double> y;        ///< T, D, N, H
  std::vector<bool> is_beyond;  ///< whether a number of y is beyond the length of its sequence
  std::vector<double> h;        ///< D, N, H
  std::vector<double> c;        ///< D, N, H; of an LSTM

 private:
  using numbers = std::vector<double>;
  static constexpr bool is_lstm = std::is_same_v<Operation, lstm>;
  static constexpr bool is_gru = std::is_same_v<Operation, gru>;

  [[nodiscard]] bool is_time_major() const { return op_.layout == sequence_layout::time_major; }
  static double number_of(const elements& e, const extents& i) {
    return static_cast<double>(e[i].real());
  }
  static double number_of(const numbers& rows, std::int64_t row, std::int64_t columns,
                          std::int64_t i) {
    return rows[static_cast<std::size_t>(row * columns + i)];
  }
  /// The row of W or R of all directions.
  [[nodiscard]] std::int64_t row_of(std::int64_t d, std::int64_t row) const {
    return d * rows_ + row;
  }
  [[nodiscard]] numbers state(const elements* initial, std::int64_t d, std::int64_t n) const {
    numbers all;
    for (std::int64_t j = 0; j < s_.hidden; ++j) {
      all.push_back(initial == nullptr ? 0
                    : is_time_major()  ? number_of(*initial, {d, n, j})
                                       : number_of(*initial, {n, d, j}));
    }
    return all;
  }
  static double bias(const elements* b, std::int64_t d, std::int64_t row) {
    return b == nullptr ? 0 : number_of(*b, {d, row});
  }
  /// The block of rows of a gate: "iofc", "zrh" or "h".
  [[nodiscard]] std::int64_t block(char gate) const {
    const std::string_view onnx = is_lstm ? "iofc" : is_gru ? "zrh" : "h";
    auto order = onnx;
    if constexpr (is_lstm || is_gru) {
      if (op_.order == gate_order::pytorch) order = is_lstm ? "ifco" : "rzh";
    }
    return static_cast<std::int64_t>(order.find(gate));
  }
  /// X[t] · Wᵀ + Wb of a gate.
  [[nodiscard]] double of_x(char gate, std::int64_t t, std::int64_t d, std::int64_t n,
                            std::int64_t j) const {
    const auto row = block(gate) * s_.hidden + j;
    double sum = bias(in_.input_bias, d, row);
    for (std::int64_t i = 0; i < s_.input; ++i) {
      sum +=
          number_of(x_, t * s_.batch + n, s_.input, i) * number_of(w_, row_of(d, row), s_.input, i);
    }
    return sum;
  }
  /// state · Rᵀ + Rb of a gate.
  [[nodiscard]] double of_h(char gate, const numbers& state, std::int64_t d, std::int64_t j) const {
    const auto row = block(gate) * s_.hidden + j;
    double sum = bias(in_.recurrent_bias, d, row);
    for (std::int64_t i = 0; i < s_.hidden; ++i) {
      sum += state[static_cast<std::size_t>(i)] * number_of(r_, row_of(d, row), s_.hidden, i);
    }
    return sum;
  }
  [[nodiscard]] double of_c(int gate, double cell, std::int64_t d, std::int64_t j) const {
    return in_.peepholes == nullptr ? 0
                                    : cell * number_of(*in_.peepholes, {d, gate * s_.hidden + j});
  }
  [[nodiscard]] double apply(activation f, double argument) const {
    if (op_.clip != 0 && !std::isnan(argument))
      argument = std::clamp(argument, -op_.clip, op_.clip);
    return function_of(f, argument);
  }

  void step(std::int64_t t, std::int64_t d, std::int64_t n, numbers& state, numbers& cell) {
    const auto count = static_cast<std::size_t>(s_.hidden);
    numbers next(count);
    numbers reset(count);
    if constexpr (is_gru) {
      for (std::size_t k = 0; k < count; ++k) {
        const auto j = static_cast<std::int64_t>(k);
        reset[k] = apply(op_.gate_activation, of_x('r', t, d, n, j) + of_h('r', state, d, j));
      }
    }
    for (std::size_t k = 0; k < count; ++k) {
      const auto j = static_cast<std::int64_t>(k);
      if constexpr (is_lstm) {
        const auto sum = [&](char gate) {
          return of_x(gate, t, d, n, j) + of_h(gate, state, d, j);
        };
        const auto i = apply(op_.gate_activation, sum('i') + of_c(0, cell[k], d, j));
        const auto f = op_.input_forget
                           ? 1 - i
                           : apply(op_.gate_activation, sum('f') + of_c(2, cell[k], d, j));
        cell[k] = f * cell[k] + i * apply(op_.cell_activation, sum('c'));
        const auto o = apply(op_.gate_activation, sum('o') + of_c(1, cell[k], d, j));
        next[k] = o * apply(op_.output_activation, cell[k]);
      } else if constexpr (is_gru) {
        const auto z = apply(op_.gate_activation, of_x('z', t, d, n, j) + of_h('z', state, d, j));
        double argument = of_x('h', t, d, n, j);
        if (op_.linear_before_reset) {
          argument += reset[k] * of_h('h', state, d, j);
        } else {
          auto product = state;
          for (std::size_t m = 0; m < count; ++m) product[m] *= reset[m];
          argument += of_h('h', product, d, j);
        }
        next[k] = (1 - z) * apply(op_.hidden_activation, argument) + z * state[k];
      } else {
        next[k] = apply(op_.activation, of_x('h', t, d, n, j) + of_h('h', state, d, j));
      }
    }
    for (auto& value : next) value = rounded(in_.x->type(), value);
    state = next;
  }
  void run(std::int64_t d, std::int64_t n) {
    auto state_h = state(in_.initial_h, d, n);
    auto state_c = state(in_.initial_c, d, n);
    const auto given =
        in_.lengths == nullptr ? s_.steps : static_cast<std::int64_t>((*in_.lengths)[{n}].real());
    const auto length = std::clamp<std::int64_t>(given, 0, s_.steps);
    const bool is_reverse = op_.direction == recurrent_direction::reverse || d == 1;
    for (std::int64_t i = 0; i < length; ++i) {
      const auto t = is_reverse ? length - 1 - i : i;
      step(t, d, n, state_h, state_c);
      const auto first = ((t * directions_ + d) * s_.batch + n) * s_.hidden;
      std::copy(state_h.begin(), state_h.end(), y.begin() + first);
      std::fill_n(is_beyond.begin() + first, s_.hidden, false);
    }
    const auto position = (d * s_.batch + n) * s_.hidden;
    std::copy(state_h.begin(), state_h.end(), h.begin() + position);
    std::copy(state_c.begin(), state_c.end(), c.begin() + position);
  }

  const Operation& op_;
  recurrent_shape s_;
  recurrent_operands in_;
  std::int64_t directions_;
  std::int64_t rows_;
  numbers x_;
  numbers w_;
  numbers r_;
};

}  // namespace sluice::test
