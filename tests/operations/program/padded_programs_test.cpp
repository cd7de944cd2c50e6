// SPDX-License-Identifier: Apache-2.0
// Runs of a program with different extents that are launched together.
#include "operations/program/batch_layout.hpp"
#include "operations/program/program_graph.hpp"
#include "operations/program/stacked_runs.hpp"
#include "tests/operations/program/batched_programs.hpp"
#include "tests/support/expect_error.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <random>
#include <utility>
#include <vector>

namespace sluice::test {
namespace {

class padded_programs : public batched_programs {
 protected:
  void SetUp() override {
    batched_programs::SetUp();
    if (IsSkipped()) return;
    window_ = get(numbers({16}));
    filterbank_ = get(numbers({n_mels, 9}));
  }
  /// Spectrograms of clips, and the loudest band of each frame.
  program spectrogram(bool pads, std::size_t max_in_batch = 128) {
    program_builder p;
    const auto clip = pads ? p.input("clip", per_request, padded{-1}) : p.input("clip");
    const auto frames = p.add(
        "frames", frame_signal{.signal = clip, .window = p.constant("window", window_), .hop = 7});
    const auto power = p.add("power", power_spectrum{.x = p.add("fft", rfft{.x = frames})});
    const auto mel =
        p.add("mel", gemm{.a = p.constant("filterbank", filterbank_), .b = power.transposed()});
    const auto loudest =
        p.add("loudest", reduce{.x = mel, .kind = reduction::max, .axes = extents{1}});
    return std::move(p).build({mel, loudest}, {.max_in_batch = pads ? max_in_batch : 1});
  }
  /// Clips of random lengths, the first one of the longest and the last one of the shortest.
  std::vector<tensor> clips_of(std::size_t count, std::int64_t shortest, std::int64_t longest,
                               std::int64_t rows = 1) {
    std::uniform_int_distribution<std::int64_t> length(shortest, longest);
    std::vector<tensor> all;
    for (std::size_t i = 0; i < count; ++i) {
      const bool last = i + 1 == count;
      all.push_back(numbers({rows, i == 0 ? longest : last ? shortest : length(generator_)}));
    }
    return all;
  }
  [[nodiscard]] bool on_host() const { return GetParam() == "host"; }

 private:
  host_tensor window_;
  host_tensor filterbank_;
  std::mt19937_64 generator_ = make_generator();
};

TEST_P(padded_programs, compute_what_each_run_computes_alone) {
  const auto program = spectrogram(true);
  const auto reference = spectrogram(false);
  for (const std::size_t count : {1, 2, 3, 7, 33, 128}) {
    // Rounded to 64.
    const auto all = clips_of(count, 61, 64, count == 7 ? 3 : 1);
    std::vector<sluice::run> runs;
    for (const auto& clip : all) runs.push_back({.what = program, .inputs = {clip}});
    auto answers = submit_together(std::move(runs));
    for (std::size_t i = 0; i < count; ++i) {
      expect_equal(answer_of(answers[i]), results_of({reference, {all[i]}}));
    }
    if (!on_host()) {
      EXPECT_EQ(launches(), sizes{count});
    }
  }
}

TEST_P(padded_programs, have_results_in_another_order_of_dimensions) {
  const auto turned = [](bool pads) {
    program_builder p;
    const auto x = pads ? p.input("x", per_request, padded{1}) : p.input("x");
    return std::move(p).build({p.add("turned", exp(x.transposed()))},
                              {.max_in_batch = pads ? 16U : 1U});
  };
  const auto program = turned(true);
  const auto reference = turned(false);
  for (const std::int64_t rows : {1, 3}) {
    std::vector<sluice::run> runs;
    std::vector<tensors> expected;
    for (std::int64_t extent = 1; extent < 9; ++extent) {
      const auto x = numbers({rows, extent, 5});
      expected.push_back(results_of({reference, {x}}));
      runs.push_back({.what = program, .inputs = {x}});
    }
    auto answers = submit_together(std::move(runs));
    for (std::size_t i = 0; i < answers.size(); ++i) {
      const auto found = answer_of(answers[i]);
      EXPECT_EQ(found[0].strides(), expected[i][0].strides());
      expect_equal(found, expected[i]);
    }
  }
}

TEST_P(padded_programs, take_clips_of_all_lengths) {
  const auto program = spectrogram(true);
  const auto reference = spectrogram(false);
  auto all = clips_of(60, 1, 3000);
  for (std::int64_t length = 1; length < 40; ++length) all.push_back(numbers({1, length}));
  std::vector<sluice::run> runs;
  for (std::size_t i = 0; i < all.size(); ++i) {
    runs.push_back({.what = program, .inputs = {i % 3 == 1 ? run_input(get(all[i])) : all[i]}});
  }
  auto answers = submit_together(std::move(runs));
  for (std::size_t i = 0; i < all.size(); ++i) {
    expect_equal(answer_of(answers[i]), results_of({reference, {all[i]}}));
  }
}

TEST_P(padded_programs, share_executables) {
  const auto program = spectrogram(true);
  const auto plans_before = traced().status().plans.made;
  // Two extents in this octave.
  for (std::int64_t length = 1025; length <= 2048; length += 31) {
    (void)run(traced(), sluice::run{program, {numbers({1, length})}});
  }
  const auto plans = traced().status().plans.made - plans_before;
  EXPECT_EQ(plans, on_host() ? 34U : 2U);
}

TEST_P(padded_programs, write_outputs_that_are_given) {
  const auto program = spectrogram(true);
  const auto reference = spectrogram(false);
  const auto all = clips_of(9, 61, 64);
  std::vector<sluice::run> runs;
  std::vector<tensors> outputs;
  for (std::size_t i = 0; i < all.size(); ++i) {
    const auto expected = results_of({reference, {all[i]}});
    outputs.push_back({numbers(expected[0].shape()), numbers(expected[1].shape())});
    runs.push_back({.what = program, .inputs = {all[i]}});
    if (i % 2 == 0) runs.back().outputs = {outputs.back()[0], outputs.back()[1]};
  }
  auto answers = submit_together(std::move(runs));
  for (std::size_t i = 0; i < all.size(); ++i) {
    const auto found = answer_of(answers[i]);
    if (i % 2 == 0) {
      EXPECT_EQ(found[0], outputs[i][0]);
      EXPECT_EQ(found[1], outputs[i][1]);
    }
    expect_equal(found, results_of({reference, {all[i]}}));
  }
}

TEST_P(padded_programs, are_bit_for_bit_as_if_alone_on_request) {
  const auto program = spectrogram(true);
  const auto reference = spectrogram(false);
  for (const auto& clip : clips_of(5, 50, 150)) {
    const auto found = results_of({program, {clip}}, {.bits = result_bits::as_if_alone});
    const auto expected = results_of({reference, {clip}});
    for (std::size_t i = 0; i < found.size(); ++i) EXPECT_EQ(bits(found[i]), bits(expected[i]));
  }
}

TEST_P(padded_programs, are_prepared_for_all_extents_that_are_rounded_alike) {
  const auto program = spectrogram(true);
  const auto clip = [](std::int64_t length) {
    return tensor_spec::row_major(element_type::f32, {1, length});
  };
  (void)run(traced(), sluice::prepare{.what = program, .inputs = {clip(61)}});
  const request_options alone{.bits = result_bits::as_if_alone};
  (void)run(traced(), sluice::prepare{.what = program, .inputs = {clip(62)}}, alone);
  const auto plans = traced().status().plans.made;
  (void)run(traced(), sluice::run{program, {numbers({1, 62})}}, alone);
  (void)run(traced(), sluice::run{program, {numbers({1, 64})}});
  EXPECT_EQ(traced().status().plans.made - plans, on_host() ? 1U : 0U);
}

TEST_P(padded_programs, fail_alone) {
  const auto program = spectrogram(true);
  const auto reference = spectrogram(false);
  const auto all = clips_of(6, 61, 64);
  const auto bad = runtime().allocate<float>(63, stream());
  std::vector<sluice::run> runs;
  for (const auto& clip : all) runs.push_back({.what = program, .inputs = {clip}});
  runs[2].inputs[0] = tensor(bad.block(), element_type::f32, {1, 63});
  auto answers = submit_together(std::move(runs), {}, [&] { runtime().deallocate(bad.block()); });
  for (std::size_t i = 0; i < all.size(); ++i) {
    if (i == 2) {
      EXPECT_TRUE(throws(errc::stale_ref, "freed", [&] { (void)answer_of(answers[i]); }));
    } else {
      expect_equal(answer_of(answers[i]), results_of({reference, {all[i]}}));
    }
  }
}

TEST_P(padded_programs, are_refused_without_the_axis) {
  const auto built = [](int axis) {
    program_builder p;
    const auto x = p.input("x", per_request, padded{axis});
    return std::move(p).build({p.add("twice", add(x, x))}, {.max_in_batch = 2});
  };
  EXPECT_TRUE(throws(errc::invalid_argument, "x: padded: axis is 0", [&] { (void)built(0); }));
  for (const int axis : {2, -2, -3, 1000}) {
    EXPECT_TRUE(
        throws(errc::invalid_argument, "x: is padded along axis " + std::to_string(axis), [&] {
          (void)results_of({built(axis), {numbers({2, 3})}});
        }));
  }
}

INSTANTIATE_TEST_SUITE_P(devices, padded_programs, every_device(), parameter_name);

/// Layouts of runs of a program with an input "x" that is padded along axis 1.
class padded_layouts : public ::testing::Test {
 protected:
  using layout = std::shared_ptr<const operations::batch_layout>;
  /// The result has the values that `view` makes of twice the input.
  template <class View>
  static program twice(const View& view) {
    program_builder p;
    const auto x = p.input("x", per_request, padded{1});
    const auto doubled = p.add("doubled", add(x, x));
    return std::move(p).build({p.add("result", add(view(doubled), view(doubled)))},
                              {.max_in_batch = 8});
  }
  static program twice() {
    return twice([](const program_value& x) { return x; });
  }
  static layout layout_of(const program& program, const extents& shape) {
    const std::vector inputs{tensor_spec::row_major(element_type::f32, shape)};
    return program.graph()
        ->infer(inputs, {}, std::vector<operations::given_output>(1))
        .shared->padded;
  }
};

TEST_F(padded_layouts, round_extents_to_a_few_in_an_octave) {
  const auto program = twice();
  std::int64_t before = 0;
  for (std::int64_t n = 1; n <= 5000; ++n) {
    const auto found = layout_of(program, {1, n});
    ASSERT_NE(found, nullptr);
    const auto rounded = found->full_run->inputs[0].shape[1];
    ASSERT_GE(rounded, n);
    ASSERT_LT(2 * (rounded - n), n) << n;
    ASSERT_GE(rounded, before);
    if (n <= 4 || (n & (n - 1)) == 0) {
      ASSERT_EQ(rounded, n);
    }
    before = rounded;
  }
  EXPECT_EQ(layout_of(program, {1, 1025}), layout_of(program, {1, 1536}));
  EXPECT_NE(layout_of(program, {1, 1536}), layout_of(program, {1, 1537}));
  // A row of more than 128 KiB.
  const auto large = [&](std::int64_t rows) {
    return layout_of(program, {1, rows, 64});
  };
  EXPECT_EQ(large(513), large(768));
  EXPECT_EQ(large(1025), large(1152));
  EXPECT_NE(large(1152), large(1153));
}

TEST_F(padded_layouts, have_a_row_for_each_index_in_front_of_the_axis) {
  const auto program = twice();
  const auto found = layout_of(program, {3, 63, 5});
  ASSERT_NE(found, nullptr);
  for (const auto& part : {found->inputs[0], found->outputs[0]}) {
    EXPECT_EQ(part.rows, 3U);
    EXPECT_EQ(part.row_bytes, 64U * 5 * sizeof(float));
  }
  const auto transposed = twice([](const program_value& x) { return x.transposed(); });
  // The result lies as the input does: its padded axis is in front of the others in memory.
  EXPECT_EQ(layout_of(transposed, {3, 63, 5})->outputs[0].rows, 3U);
}

TEST_F(padded_layouts, have_results_of_several_runs_in_the_order_of_one) {
  const auto transposed = twice([](const program_value& x) { return x.transposed(); });
  for (const std::int64_t rows : {1, 3}) {
    const auto found = layout_of(transposed, {rows, 63, 5});
    for (const std::size_t count : {1, 4}) {
      const auto runs = operations::stacked_runs(*transposed.graph(), *found->full_run, count);
      const auto& written = runs.written[runs.memory_of_output[0]];
      EXPECT_EQ(written.spec.shape, (extents{rows * static_cast<std::int64_t>(count), 5, 64}));
      EXPECT_EQ(written.spec.strides[1], 1);
      EXPECT_EQ(written.spec.strides[2], 5);
      EXPECT_TRUE(written.result) << "the step writes it without a copy";
    }
  }
}

TEST_F(padded_layouts, are_only_of_outputs_that_depend_in_one_axis) {
  program_builder p;
  const auto x = p.input("x", per_request, padded{1});
  const auto square = p.add("square", gemm{.a = x.transposed(), .b = x});
  const auto program = std::move(p).build({square}, {.max_in_batch = 8});
  EXPECT_EQ(layout_of(program, {2, 63, 5}), layout_of(program, {2, 64, 5}))
      << "the axis is multiplied away";
  program_builder q;
  const auto y = q.input("x", per_request, padded{1});
  const auto outer = q.add("outer", gemm{.a = y, .b = y.transposed()});
  const auto squares = std::move(q).build({outer}, {.max_in_batch = 8});
  EXPECT_EQ(layout_of(squares, {2, 63, 5}), nullptr);
}

TEST_F(padded_layouts, are_not_of_large_inputs_and_outputs) {
  const auto program = twice();
  constexpr std::int64_t most = std::int64_t{16} << 20U;  // elements of 64 MiB
  EXPECT_NE(layout_of(program, {1, most}), nullptr);
  EXPECT_EQ(layout_of(program, {1, most + 1}), nullptr);
  program_builder p;
  const auto x = p.input("x", per_request, padded{1});
  const auto weights = p.constant("weights", host_tensor(element_type::f32, {64, 4096}));
  const auto wide = p.add("wide", gemm{.a = x, .b = weights});
  const auto widened = std::move(p).build({wide}, {.max_in_batch = 8});
  EXPECT_NE(layout_of(widened, {1, 16384, 64}), nullptr);  // 256 MiB
  EXPECT_EQ(layout_of(widened, {1, 16385, 64}), nullptr);
}

TEST_F(padded_layouts, leave_runs_as_they_are_that_a_step_takes_only_so) {
  const auto reshaped = twice([](const program_value& x) { return x.reshape({-1, 100}); });
  EXPECT_EQ(layout_of(reshaped, {1, 1100}), nullptr);
  program_builder p;
  const auto x = p.input("x", per_request, padded{1});
  const auto y = p.input("y", per_request, padded{1});
  const auto program =
      std::move(p).build({p.add("sum", add(x.slice(1, 1), y))}, {.max_in_batch = 8});
  const auto infer = [&](std::int64_t of_x, std::int64_t of_y) {
    const std::vector inputs{tensor_spec::row_major(element_type::f32, {1, of_x}),
                             tensor_spec::row_major(element_type::f32, {1, of_y})};
    return program.graph()
        ->infer(inputs, {}, std::vector<operations::given_output>(1))
        .shared->padded;
  };
  EXPECT_EQ(infer(1025, 1024), nullptr);
}

TEST_F(padded_layouts, round_equal_extents_alike) {
  program_builder p;
  const auto x = p.input("x", per_request, padded{-1});
  const auto y = p.input("y", per_request, padded{-1});
  const auto program = std::move(p).build({p.add("scaled", multiply(x, y))}, {.max_in_batch = 8});
  const std::vector inputs{tensor_spec::row_major(element_type::f32, {1, 80, 5000}),
                           tensor_spec::row_major(element_type::f32, {1, 1, 5000})};
  const auto found =
      program.graph()->infer(inputs, {}, std::vector<operations::given_output>(1)).shared->padded;
  ASSERT_NE(found, nullptr);
  EXPECT_EQ(found->input_specs[0].shape[2], 5120);
  EXPECT_EQ(found->input_specs[1].shape[2], 5120);
}

TEST_F(padded_layouts, are_not_of_runs_with_more_tensors_than_a_batch_takes) {
  program_builder p;
  auto sum = p.input("x0", per_request, padded{1});
  for (int i = 1; i < 4; ++i) {
    const auto n = std::to_string(i);
    sum = p.add("sum" + n, add(sum, p.input("x" + n, per_request)));
  }
  const auto program = std::move(p).build({sum}, {.max_in_batch = 8});
  const std::vector inputs(4, tensor_spec::row_major(element_type::f32, {1, 64}));
  EXPECT_EQ(
      program.graph()->infer(inputs, {}, std::vector<operations::given_output>(1)).shared->padded,
      nullptr);
}

}  // namespace
}  // namespace sluice::test
