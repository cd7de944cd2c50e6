// SPDX-License-Identifier: Apache-2.0
#include "tests/operations/dnn/real_numbers.hpp"
#include "tests/operations/dnn/recurrent_reference.hpp"
#include "tests/operations/elementwise/elements.hpp"
#include "tests/support/expect_error.hpp"

#include <sluice/operations/program.hpp>
#include <sluice/operations/recurrent.hpp>

#include <gtest/gtest.h>

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <limits>
#include <string>
#include <utility>
#include <vector>

namespace sluice::test {
namespace {

template <class Operation>
constexpr std::int64_t gates_of = std::is_same_v<Operation, lstm>  ? 4
                                  : std::is_same_v<Operation, gru> ? 3
                                                                   : 1;

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

TEST_P(recurrent_operation, lstm_of_all_options) {
  expect_layers<lstm>();
}
TEST_P(recurrent_operation, gru_of_all_options) {
  expect_layers<gru>();
}
TEST_P(recurrent_operation, rnn_of_all_options) {
  expect_layers<rnn>();
}
TEST_P(recurrent_operation, larger_layers) {
  expect_larger_layers<lstm>();
  expect_larger_layers<gru>();
  expect_larger_layers<rnn>();
}

TEST_P(recurrent_operation, of_several_chunks) {
  // Gates of more than 32 MiB on a GPU, and of more than 1 MiB on the host.
  const bool is_host = runtime().device().id().kind == device_kind::host;
  expect_layer<rnn>(element_type::f32,
                    is_host ? recurrent_shape{90, 103, 1, 4} : recurrent_shape{2100, 1031, 1, 4},
                    false);
  expect_layer<gru>(element_type::f32, {150, 31, 3, 30}, false);
}

TEST_P(recurrent_operation, of_no_steps_and_no_inputs) {
  for (int round = 0; round < 12 && !HasFailure(); ++round) {
    const auto type = real_types[static_cast<std::size_t>(between(0, 3))];
    expect_layer<lstm>(type, {0, between(1, 4), between(0, 4), between(1, 5)}, true);
    expect_layer<gru>(type, {between(1, 6), between(1, 4), 0, between(1, 5)}, true);
    expect_layer<rnn>(type, {0, 3, 0, 2}, true);
  }
}
TEST_P(recurrent_operation, of_no_sequences_and_no_numbers) {
  constexpr std::int64_t many = std::int64_t{1} << 40U;
  const auto memory = make_contiguous(element_type::f32, {8}).view();
  const auto empty = [&](const extents& shape) {
    return tensor(memory.block(), element_type::f32, shape);
  };
  const auto w = make(element_type::f32, {1, 12, 2}).view();
  const auto r = make(element_type::f32, {1, 12, 3}).view();
  const auto none = run(test_executor(), lstm{.x = empty({many, 0, 2}), .w = w, .r = r});
  EXPECT_EQ(none[0].shape(), (extents{many, 1, 0, 3}));
  EXPECT_EQ(none[2].shape(), (extents{1, 0, 3}));
  const auto thin = run(test_executor(), gru{.x = make(element_type::f32, {4, 3, 2}).view(),
                                             .w = empty({1, 0, 2}),
                                             .r = empty({1, 0, 0})});
  EXPECT_EQ(thin[0].shape(), (extents{4, 1, 3, 0}));
}

TEST_P(recurrent_operation, continues_from_the_last_states_in_place) {
  auto l = draw_layer<lstm>(element_type::f32, {12, 3, 5, 7}, false);
  l.op.direction = recurrent_direction::forward;
  l.op.layout = sequence_layout::time_major;
  l.op.lengths = {};
  l.op.peepholes = {};
  l.operands.lengths = nullptr;
  l.operands.peepholes = nullptr;
  std::deque<elements> memory;
  const auto f32 = element_type::f32;
  const auto take = [&](operand& member, const elements*& in, const extents& shape) {
    in = &draw(memory, f32, shape, 0.3, false);
    member = in->view();
  };
  take(l.op.w, l.operands.w, {1, 28, 5});
  take(l.op.r, l.operands.r, {1, 28, 7});
  l.op.input_bias = {};
  l.op.recurrent_bias = {};
  l.operands.input_bias = nullptr;
  l.operands.recurrent_bias = nullptr;
  take(l.op.x, l.operands.x, {12, 3, 5});
  take(l.op.initial_h, l.operands.initial_h, {1, 3, 7});
  take(l.op.initial_c, l.operands.initial_c, {1, 3, 7});
  const recurrent_reference<lstm> reference(l.op, l.shape, l.operands);
  auto part = l.op;
  part.y_h = l.op.initial_h;
  part.y_c = l.op.initial_c;
  tensors last;
  for (const auto& [begin, end] : {std::pair{0, 1}, {1, 7}, {7, 12}}) {
    part.x = l.op.x.value().slice(0, begin, end);
    last = run(test_executor(), part);
  }
  expect_near(f32, last[1], true, reference.h, "y_h");
  expect_near(f32, last[2], true, reference.c, "y_c");
}

TEST_P(recurrent_operation, confines_nan_to_its_sequence_and_its_length) {
  std::deque<elements> memory;
  const auto f32 = element_type::f32;
  auto x = make_contiguous(f32, {6, 3, 1});
  std::vector<float> values(18, 0.25F);
  values[2 * 3 + 1] = NAN;  // element 2 of sequence 1
  values[4 * 3 + 2] = NAN;  // element 4 of sequence 2, which has 4
  x.set(values);
  auto lengths = make_contiguous(element_type::i32, {3});
  lengths.set(std::vector<std::int32_t>{6, 6, 4});
  const auto& w = draw(memory, f32, {2, 3 * 5, 1}, 0.5, false);
  const auto& r = draw(memory, f32, {2, 3 * 5, 5}, 0.5, false);
  for (const bool before : {false, true}) {
    const auto results = run(test_executor(), gru{.x = x.view(),
                                                  .w = w.view(),
                                                  .r = r.view(),
                                                  .lengths = lengths.view(),
                                                  .direction = recurrent_direction::bidirectional,
                                                  .linear_before_reset = before});
    expect_each(results[0], [&](const extents& i, const number& y) {
      const bool is_nan = i[2] == 1 && (i[1] == 0 ? i[0] >= 2 : i[0] <= 2);
      const bool is_beyond = i[2] == 2 && i[0] >= 4;
      return std::isnan(y.real()) == is_nan && (y.real() == 0) == is_beyond
                 ? ::testing::AssertionSuccess()
                 : ::testing::AssertionFailure() << y.real();
    });
  }
}

TEST_P(recurrent_operation, layers_of_a_program_without_copies) {
  for (const auto layout : {sequence_layout::time_major, sequence_layout::batch_major}) {
    constexpr std::int64_t steps = 5;
    constexpr std::int64_t batch = 3;
    constexpr std::int64_t hidden = 4;
    const bool is_time_major = layout == sequence_layout::time_major;
    std::deque<elements> memory;
    const auto f32 = element_type::f32;
    const auto& x = draw(
        memory, f32, is_time_major ? extents{steps, batch, 6} : extents{batch, steps, 6}, 1, false);
    const auto& w0 = draw(memory, f32, {2, 4 * hidden, 6}, 0.5, false);
    const auto& r0 = draw(memory, f32, {2, 4 * hidden, hidden}, 0.5, false);
    const auto& w1 = draw(memory, f32, {1, 4 * hidden, 2 * hidden}, 0.5, false);
    const auto& r1 = draw(memory, f32, {1, 4 * hidden, hidden}, 0.5, false);
    const auto both = recurrent_direction::bidirectional;
    const auto joined = [&](const auto& y) {
      return is_time_major ? y.permute({0, 2, 1, 3}).reshape({steps, batch, 2 * hidden})
                           : y.reshape({-1, steps, 2 * hidden});
    };
    program_builder p;
    const auto input = is_time_major ? p.input("x") : p.input("x", per_request);
    const auto first = p.add("first", lstm{.x = input,
                                           .w = p.constant("w0", w0.view()),
                                           .r = p.constant("r0", r0.view()),
                                           .direction = both,
                                           .layout = layout});
    const auto second = p.add("second", lstm{.x = joined(first[0]),
                                             .w = p.constant("w1", w1.view()),
                                             .r = p.constant("r1", r1.view()),
                                             .layout = layout});
    const auto program =
        std::move(p).build({second[0], second[1]}, {.max_in_batch = is_time_major ? 1U : 8U});
    const auto result = run(test_executor(), sluice::run{program, {x.view()}});
    const auto alone = run(
        test_executor(),
        lstm{.x = x.view(), .w = w0.view(), .r = r0.view(), .direction = both, .layout = layout});
    const auto expected =
        run(test_executor(),
            lstm{.x = joined(alone[0]), .w = w1.view(), .r = r1.view(), .layout = layout});
    const auto bytes = contents_of(expected[0]);
    std::size_t i = 0;
    expect_each(result[0], [&](const extents&, const number& y) {
      const auto wanted = number_at(f32, &bytes[4 * i++]);
      return y.real() == wanted.real() ? ::testing::AssertionSuccess()
                                       : ::testing::AssertionFailure() << y.real();
    });
  }
}

TEST_P(recurrent_operation, refusals) {
  const auto refuse = [&](const std::string& text, const lstm& op) {
    EXPECT_TRUE(throws(errc::invalid_argument, text, [&] { (void)run(test_executor(), op); }))
        << text;
  };
  const auto f32 = element_type::f32;
  const auto x = make(f32, {4, 2, 3}).view();
  const auto w = make(f32, {1, 20, 3}).view();
  const auto r = make(f32, {1, 20, 5}).view();
  const auto two = make(f32, {2, 20, 5}).view();
  refuse("x: is not given", {.w = w, .r = r});
  refuse("w: is not given", {.x = x, .r = r});
  refuse("r: is not given", {.x = x, .w = w});
  refuse("x: is of type i32", {.x = make(element_type::i32, {4, 2, 3}).view(), .w = w, .r = r});
  refuse("w: is of type f16", {.x = x, .w = make(element_type::f16, {1, 20, 3}).view(), .r = r});
  refuse("x: has the shape [4]", {.x = make(f32, {4}).view(), .w = w, .r = r});
  refuse("r: has the shape [20, 5]", {.x = x, .w = w, .r = make(f32, {20, 5}).view()});
  refuse("r: has the shape [2, 20, 5]", {.x = x, .w = w, .r = two});
  refuse("r: has the shape [1, 20, 3]", {.x = x, .w = w, .r = w});
  refuse("w: has the shape [1, 20, 5]", {.x = x, .w = r, .r = r});
  refuse("input_bias: has the shape [20]",
         {.x = x, .w = w, .r = r, .input_bias = make(f32, {20}).view()});
  refuse("recurrent_bias: has the shape [1, 40]",
         {.x = x, .w = w, .r = r, .recurrent_bias = make(f32, {1, 40}).view()});
  refuse("lengths: is of type f32", {.x = x, .w = w, .r = r, .lengths = make(f32, {2}).view()});
  refuse("lengths: has the shape [4]",
         {.x = x, .w = w, .r = r, .lengths = make(element_type::i32, {4}).view()});
  refuse("initial_h: has the shape [2, 1, 5]",
         {.x = x, .w = w, .r = r, .initial_h = make(f32, {2, 1, 5}).view()});
  refuse("initial_c: has the shape [1, 2, 4]",
         {.x = x, .w = w, .r = r, .initial_c = make(f32, {1, 2, 4}).view()});
  refuse("peepholes: has the shape [1, 20]",
         {.x = x, .w = w, .r = r, .peepholes = make(f32, {1, 20}).view()});
  refuse("clip: is -1", {.x = x, .w = w, .r = r, .clip = -1});
  refuse("y: has the shape [4, 2, 5]", {.x = x, .w = w, .r = r, .y = make(f32, {4, 2, 5}).view()});
  refuse("direction: 3",
         {.x = x, .w = w, .r = r, .direction = static_cast<recurrent_direction>(3)});
  refuse("order: 2", {.x = x, .w = w, .r = r, .order = static_cast<gate_order>(2)});
}

INSTANTIATE_TEST_SUITE_P(devices, recurrent_operation, every_device(), parameter_name);

}  // namespace
}  // namespace sluice::test
