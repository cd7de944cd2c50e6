// SPDX-License-Identifier: Apache-2.0
#include "tests/operations/dnn/recurrent_layer_test.hpp"
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

TEST_P(recurrent_operation, of_few_sequences_and_many_numbers) {
  for (std::int64_t batch = 1; batch <= 7 && !HasFailure(); ++batch) {
    expect_layer<lstm>(element_type::f32, {5, batch, 150, 40}, false);
    expect_layer<gru>(element_type::f32, {5, batch, 10, 140}, false);
  }
}

TEST_P(recurrent_operation, of_several_chunks) {
  // Gates of more than 32 MiB on a GPU, and of more than 1 MiB on the host.
  const bool is_host = runtime().device().id().kind == device_kind::host;
  expect_layer<rnn>(element_type::f32,
                    is_host ? recurrent_shape{90, 103, 1, 4} : recurrent_shape{2100, 1031, 1, 4},
                    false);
  expect_layer<gru>(element_type::f32, {150, 31, 3, 30}, false);
  // The host converts 128 rows of so many numbers at a time.
  expect_layer<lstm>(element_type::f16, {47, 3, 2100, 4}, false);
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
