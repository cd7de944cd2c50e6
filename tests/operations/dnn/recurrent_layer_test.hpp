// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "tests/operations/dnn/real_numbers.hpp"
#include "tests/operations/dnn/recurrent_reference.hpp"
#include "tests/operations/elementwise/elements.hpp"

#include <sluice/operations/recurrent.hpp>

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <random>
#include <string>
#include <type_traits>
#include <vector>

namespace sluice::test {

template <class Operation>
inline constexpr std::int64_t gates_of = std::is_same_v<Operation, lstm>  ? 4
                                         : std::is_same_v<Operation, gru> ? 3
                                                                          : 1;

/// Compares recurrent layers with their equations.
class recurrent_operation : public elementwise_test {
 protected:
  /// Draws the operands and the options of a layer.
  template <class Operation>
  struct layer {
    recurrent_shape shape;
    element_type type = element_type::f32;
    Operation op{};
    recurrent_operands operands{};
    std::deque<elements> memory{};

    [[nodiscard]] std::int64_t directions() const {
      return op.direction == recurrent_direction::bidirectional ? 2 : 1;
    }
    [[nodiscard]] bool is_time_major() const { return op.layout == sequence_layout::time_major; }
    [[nodiscard]] extents state_shape() const {
      return is_time_major() ? extents{directions(), shape.batch, shape.hidden}
                             : extents{shape.batch, directions(), shape.hidden};
    }
    [[nodiscard]] extents y_shape() const {
      return is_time_major() ? extents{shape.steps, directions(), shape.batch, shape.hidden}
                             : extents{shape.batch, shape.steps, directions(), shape.hidden};
    }
  };

  /// A tensor of random numbers between -`largest` and `largest`.
  const elements& draw(std::deque<elements>& memory, element_type type, const extents& shape,
                       double largest, bool has_gaps) {
    memory.push_back(has_gaps ? make(type, shape) : make_contiguous(type, shape));
    auto& drawn = memory.back();
    std::uniform_real_distribution<float> numbers(static_cast<float>(-largest),
                                                  static_cast<float>(largest));
    const auto fill = [&](auto element) {
      std::vector<decltype(element)> values(drawn.memory().size() / sizeof element);
      for (auto& value : values) value = static_cast<decltype(element)>(numbers(generator()));
      if (!values.empty()) drawn.set(values);
    };
    switch (type) {
      case element_type::f16:
        fill(f16());
        break;
      case element_type::bf16:
        fill(bf16());
        break;
      case element_type::f32:
        fill(float());
        break;
      default:
        fill(double());
    }
    return drawn;
  }
  const elements& draw_lengths(std::deque<elements>& memory, const recurrent_shape& s) {
    const bool is_narrow = coin();
    memory.push_back(make(is_narrow ? element_type::i32 : element_type::i64, {s.batch}));
    auto& drawn = memory.back();
    const auto fill = [&](auto integer) {
      std::vector<decltype(integer)> values(drawn.memory().size() / sizeof integer);
      for (auto& value : values) {
        const auto kind = between(0, 5);
        value = static_cast<decltype(integer)>(kind == 0   ? between(-3, 0)
                                               : kind == 1 ? s.steps + between(0, 2)
                                                           : between(0, s.steps));
      }
      drawn.set(values);
    };
    if (is_narrow) {
      fill(std::int32_t());
    } else {
      fill(std::int64_t());
    }
    return drawn;
  }
  activation any_function() { return static_cast<activation>(between(0, 6)); }

  template <class Operation>
  layer<Operation> draw_layer(element_type type, const recurrent_shape& s, bool has_gaps) {
    layer<Operation> l{.shape = s, .type = type};
    auto& op = l.op;
    op.direction = static_cast<recurrent_direction>(between(0, 2));
    op.layout = coin() ? sequence_layout::time_major : sequence_layout::batch_major;
    op.clip = between(0, 3) == 0 ? 0.4 : 0;
    const bool draws_functions = between(0, 3) == 0;
    // Without a bound, states of functions without one may overflow.
    if (draws_functions && !std::is_same_v<Operation, rnn>) op.clip = 0.4;
    if constexpr (std::is_same_v<Operation, lstm>) {
      op.order = coin() ? gate_order::onnx : gate_order::pytorch;
      op.input_forget = between(0, 3) == 0;
      if (draws_functions) {
        op.gate_activation = any_function();
        op.cell_activation = any_function();
        op.output_activation = any_function();
      }
    } else if constexpr (std::is_same_v<Operation, gru>) {
      op.order = coin() ? gate_order::onnx : gate_order::pytorch;
      op.linear_before_reset = coin();
      if (draws_functions) {
        op.gate_activation = any_function();
        op.hidden_activation = any_function();
      }
    } else if (draws_functions) {
      op.activation = any_function();
    }
    const auto rows = gates_of<Operation> * s.hidden;
    const auto d = l.directions();
    const auto near = [](std::int64_t count) {
      return 1 / std::sqrt(static_cast<double>(std::max<std::int64_t>(count, 1)));
    };
    const auto give = [&](operand& member, const elements*& in, const extents& shape,
                          double largest) {
      in = &draw(l.memory, type, shape, largest, has_gaps);
      member = in->view();
    };
    give(
        op.x, l.operands.x,
        l.is_time_major() ? extents{s.steps, s.batch, s.input} : extents{s.batch, s.steps, s.input},
        1);
    give(op.w, l.operands.w, {d, rows, s.input}, near(s.input));
    give(op.r, l.operands.r, {d, rows, s.hidden}, near(s.hidden));
    if (coin()) give(op.input_bias, l.operands.input_bias, {d, rows}, 0.5);
    if (coin()) give(op.recurrent_bias, l.operands.recurrent_bias, {d, rows}, 0.5);
    if (coin()) give(op.initial_h, l.operands.initial_h, l.state_shape(), 1);
    if (coin()) {
      l.operands.lengths = &draw_lengths(l.memory, s);
      op.lengths = l.operands.lengths->view();
    }
    if constexpr (std::is_same_v<Operation, lstm>) {
      if (coin()) give(op.initial_c, l.operands.initial_c, l.state_shape(), 1);
      if (coin()) give(op.peepholes, l.operands.peepholes, {d, 3 * s.hidden}, 0.5);
    }
    return l;
  }

  static double bound_of_type(element_type type) {
    return type == element_type::f16    ? 1e-2
           : type == element_type::bf16 ? 8e-2
           : type == element_type::f32  ? 3e-5
                                        : 1e-12;
  }
  /// Compares a result with a reference in the layout `time_major`, by the Euclidean norm. Where
  /// `is_beyond` is true, it must be 0.
  void expect_near(element_type type, const tensor& result, bool is_time_major,
                   const std::vector<double>& wanted, const std::string& name,
                   const std::vector<bool>& is_beyond = {}) {
    const auto bytes = contents_of(result);
    const auto view = is_time_major                ? result
                      : result.shape().size() == 4 ? result.permute({1, 2, 0, 3})
                                                   : result.permute({1, 0, 2});
    const auto strides = view.strides();
    double difference = 0;
    double norm = 0;
    std::size_t i = 0;
    bool has_zeros = true;
    for_each_index(view.shape(), [&](const extents& index) {
      auto offset = static_cast<std::int64_t>(view.offset());
      for (std::size_t d = 0; d < index.size(); ++d) {
        offset += index[d] * strides[d] * static_cast<std::int64_t>(size_of(type));
      }
      const auto computed =
          static_cast<double>(number_at(type, &bytes[static_cast<std::size_t>(offset)]).real());
      if (!is_beyond.empty() && is_beyond[i]) has_zeros = has_zeros && computed == 0;
      const auto expected = wanted[i++];
      difference += (computed - expected) * (computed - expected);
      norm += expected * expected;
    });
    ASSERT_EQ(i, wanted.size());
    EXPECT_TRUE(has_zeros) << name;
    EXPECT_LE(std::sqrt(difference), bound_of_type(type) * std::sqrt(norm) + 1e-30) << name;
  }
  template <class Operation>
  void expect_states(const layer<Operation>& l, const tensors& results) {
    ASSERT_EQ(results.size(), (std::is_same_v<Operation, lstm> ? 3U : 2U));
    ASSERT_EQ(results[0].shape(), l.y_shape());
    ASSERT_EQ(results[1].shape(), l.state_shape());
    const recurrent_reference<Operation> reference(l.op, l.shape, l.operands);
    expect_near(l.type, results[0], l.is_time_major(), reference.y, "y", reference.is_beyond);
    expect_near(l.type, results[1], l.is_time_major(), reference.h, "y_h");
    if constexpr (std::is_same_v<Operation, lstm>) {
      expect_near(l.type, results[2], l.is_time_major(), reference.c, "y_c");
    }
  }
  template <class Operation>
  [[nodiscard]] static std::string text_of(const layer<Operation>& l) {
    const auto& s = l.shape;
    return std::to_string(gates_of<Operation>) + " gates " + std::string(to_string(l.type)) + " " +
           to_string(extents{s.steps, s.batch, s.input, s.hidden}) + " direction " +
           std::to_string(static_cast<int>(l.op.direction)) + " layout " +
           std::to_string(static_cast<int>(l.op.layout)) + " clip " + std::to_string(l.op.clip) +
           (l.op.lengths ? " lengths" : "") + (l.op.initial_h ? " initial" : "");
  }
  template <class Operation>
  void expect_layer(element_type type, const recurrent_shape& s, bool has_gaps) {
    auto l = draw_layer<Operation>(type, s, has_gaps);
    SCOPED_TRACE(text_of(l));
    const auto y = make(type, l.y_shape());
    const auto y_h = make(type, l.state_shape());
    const bool gives_y = coin();
    if (gives_y) l.op.y = y.view();
    if (coin()) l.op.y_h = y_h.view();
    expect_states(l, run(test_executor(), l.op));
    if (gives_y) expect_gaps_untouched(y);
  }
  template <class Operation>
  void expect_layers() {
    for (int round = 0; round < 60 && !HasFailure(); ++round) {
      const auto type = real_types[static_cast<std::size_t>(between(0, 3))];
      const recurrent_shape s{between(1, 9), between(1, 6), between(1, 12), between(1, 11)};
      expect_layer<Operation>(type, s, true);
    }
  }
  template <class Operation>
  void expect_larger_layers() {
    for (int round = 0; round < 6 && !HasFailure(); ++round) {
      const auto type = real_types[static_cast<std::size_t>(round % 4)];
      const recurrent_shape s{between(5, 30), between(1, 2) == 1 ? 1 : between(8, 24),
                              between(1, 40), coin() ? 32 : between(30, 70)};
      expect_layer<Operation>(type, s, coin());
    }
  }
};

}  // namespace sluice::test
