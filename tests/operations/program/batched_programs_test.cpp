// SPDX-License-Identifier: Apache-2.0
// Runs of a program that are launched together.
#include "tests/operations/program/batched_programs.hpp"

#include "tests/support/expect_error.hpp"
#include "tests/support/gate.hpp"

#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <numeric>
#include <optional>
#include <utility>
#include <vector>

namespace sluice::test {
namespace {

TEST_P(batched_programs, compute_what_each_run_computes_alone) {
  for (const std::size_t axis : {0, 1}) {
    lie_along(axis);
    const auto program = spectrogram();
    for (const std::size_t count : {1, 2, 3, 5, 8, 33, 128}) {
      const std::int64_t rows = count == 5 ? 3 : 1;
      const auto all = clips(count, rows);
      std::vector<sluice::run> runs;
      for (const auto& clip : all) {
        runs.push_back({.what = program, .inputs = {clip, shift()}});
      }
      auto answers = submit_together(std::move(runs));
      for (std::size_t i = 0; i < count; ++i) {
        expect_equal(answer_of(answers[i]), results_of({program, {all[i], shift()}}));
      }
      EXPECT_EQ(launches(), sizes{count});
    }
  }
}

TEST_P(batched_programs, compute_the_same_once_they_are_captured) {
  const auto what = spectrogram();
  const auto compare = [&](int rounds) {
    for (int round = 0; round < rounds; ++round) {
      std::vector<sluice::run> runs;
      for (const auto& clip : clips(8)) runs.push_back({what, {clip, shift()}});
      std::vector<tensors> expected;
      for (const auto& one : runs) expected.push_back(run(traced(), one));
      if (round == 0) prepare_batches(runs.front());
      auto answers = submit_at_once(runs);
      for (std::size_t i = 0; i < runs.size(); ++i)
        expect_equal(answer_of(answers[i]), expected[i]);
      EXPECT_EQ(launches(), sizes{8});
    }
  };
  compare(8);
  if (GetParam() != "host") {
    // Of a single run, and of eight.
    await([&] {
      traced().work();
      return traced().status().plans.capture_attempts >= 2;
    });
  }
  compare(16);
}

TEST_P(batched_programs, say_why_runs_are_not_launched_together) {
  const auto clip = tensor_spec::row_major(element_type::f32, {1, samples});
  const auto row = tensor_spec::row_major(element_type::f32, {n_mels, 1});
  const auto reason = [&](sluice::prepare request) {
    return prepare_of(std::move(request)).not_batched;
  };
  EXPECT_EQ(reason({.what = spectrogram(), .inputs = {clip, row}}), "");
  EXPECT_EQ(reason({.what = spectrogram({}), .inputs = {clip, row}}),
            "the program is built with max_in_batch 1");
  EXPECT_EQ(reason({.what = spectrogram(), .inputs = {clip, row}, .to_host = true}), "");
  auto gaps = clip;
  gaps.strides = {samples, 2};
  EXPECT_EQ(reason({.what = spectrogram(), .inputs = {gaps, row}}),
            "an input per request has gaps, no elements or no dimension");
  program_builder p;
  const auto x = p.input("x", per_request);
  const auto y = p.add("y", multiply(x, p.scalar("factor")));
  const auto scaled = std::move(p).build({y}, {.max_in_batch = 4});
  EXPECT_EQ(reason({.what = scaled, .inputs = {clip}, .scalars = {2}}), "the runs take scalars");
  program_builder q;
  std::vector<program_value> outputs;
  const auto z = q.input("z", per_request);
  for (int i = 0; i < 16; ++i) outputs.push_back(q.add(add(z, i)));
  const auto wide = std::move(q).build(outputs, {.max_in_batch = 4});
  EXPECT_EQ(reason({.what = wide, .inputs = {clip}}),
            "the inputs, outputs and constants on a device are more than 16");
  program_builder r;
  const auto w = r.add("w", exp(r.input("u", per_request)));
  const auto part = std::move(r).build({w.slice(1, 0, 3)}, {.max_in_batch = 4});
  EXPECT_EQ(
      reason({.what = part, .inputs = {clip}}),
      "an output is a part of a result, updates an input, has gaps, or does not lie in memory "
      "with axis 0 outermost");
  program_builder s;
  const auto v = s.add("v", exp(s.input("t", per_request.along(1))));
  const auto turned = std::move(s).build({v.permute({2, 1, 0})}, {.max_in_batch = 4});
  EXPECT_EQ(reason({.what = turned,
                    .inputs = {tensor_spec::row_major(element_type::f32, {2, 3, samples})}}),
            "an output is a part of a result, updates an input, has gaps, or lies in memory "
            "neither in row-major order nor with the axis of the runs outermost");
}

TEST_P(batched_programs, have_results_in_another_order_of_dimensions) {
  const auto build = [](const auto& step) {
    program_builder p;
    const auto y = p.add("y", step(p.input("x", per_request)));
    return std::move(p).build({y}, {.max_in_batch = 8});
  };
  const auto turned = build([](const program_value& x) { return exp(x.permute({0, 2, 1})); });
  std::vector<sluice::run> runs;
  std::vector<tensors> expected;
  for (int i = 0; i < 5; ++i) {
    const auto x = numbers({2, 3, 7});
    EXPECT_EQ(prepare_of({.what = turned, .inputs = {tensor_spec::of(x)}}).not_batched, "");
    expected.push_back({alone(exp(x.permute({0, 2, 1})))});
    runs.push_back({.what = turned, .inputs = {x}});
    // A row-major output of the caller takes another batch.
    if (i > 2) runs.back().outputs = {numbers({2, 7, 3})};
  }
  auto answers = submit_together(std::move(runs));
  for (std::size_t i = 0; i < answers.size(); ++i) {
    const auto found = answer_of(answers[i]);
    EXPECT_EQ(found[0].is_contiguous(), i > 2);
    expect_equal(found, expected[i]);
  }
  EXPECT_EQ(launches(), (sizes{3, 2}));
  // The first index is the innermost one in memory.
  const auto b = numbers({7, 4});
  const auto by_columns = build(
      [&](const program_value& x) { return gemm{.a = x, .b = b, .new_c = layout::column_major}; });
  const auto rows = tensor_spec::row_major(element_type::f32, {3, 7});
  EXPECT_EQ(
      prepare_of({.what = by_columns, .inputs = {rows}}).not_batched,
      "an output is a part of a result, updates an input, has gaps, or does not lie in memory "
      "with axis 0 outermost");
}

// The launch has no address of an input that no step reads.
TEST_P(batched_programs, need_not_read_all_inputs) {
  program_builder p;
  const auto x = p.input("x", per_request);
  (void)p.input("unread", per_request);
  const auto what = std::move(p).build({p.add("y", multiply(x, 3))}, {.max_in_batch = 8});
  std::vector<sluice::run> runs;
  std::vector<tensor> expected;
  for (int i = 0; i < 5; ++i) {
    const auto numbers_of_run = numbers({1, 7});
    expected.push_back(alone(multiply(numbers_of_run, 3)));
    runs.push_back({.what = what, .inputs = {numbers_of_run, numbers({1, 9})}});
  }
  auto answers = submit_together(std::move(runs));
  for (std::size_t i = 0; i < answers.size(); ++i) {
    EXPECT_EQ(bits(answer_of(answers[i])[0]), bits(expected[i]));
  }
}

TEST_P(batched_programs, write_outputs_that_are_given) {
  for (const std::size_t axis : {0, 1}) {
    lie_along(axis);
    const auto program = spectrogram();
    const auto all = clips(7);
    std::vector<sluice::run> runs;
    std::vector<tensors> outputs;
    for (const auto& clip : all) {
      const auto expected = results_of({program, {clip, shift()}});
      outputs.push_back({numbers(expected[0].shape()), numbers(expected[1].shape())});
      runs.push_back({.what = program,
                      .inputs = {clip, shift()},
                      .outputs = {outputs.back()[0], outputs.back()[1]}});
    }
    auto answers = submit_together(std::move(runs));
    for (std::size_t i = 0; i < all.size(); ++i) {
      const auto found = answer_of(answers[i]);
      EXPECT_EQ(found[0], outputs[i][0]);
      EXPECT_EQ(found[1], outputs[i][1]);
      expect_equal(found, results_of({program, {all[i], shift()}}));
    }
    EXPECT_EQ(launches(), sizes{7});
  }
}

TEST_P(batched_programs, fail_alone) {
  for (const std::size_t axis : {0, 1}) {
    lie_along(axis);
    const auto program = spectrogram();
    const auto all = clips(6);
    const auto bad = runtime().allocate<float>((axis + 1) * samples, stream());
    std::vector<sluice::run> runs;
    for (const auto& clip : all) runs.push_back({.what = program, .inputs = {clip, shift()}});
    runs[2].inputs[0] = tensor(bad.block(), element_type::f32, clip_shape());
    // The memory is freed after the requests have been checked.
    auto answers = submit_together(std::move(runs), {}, [&] {
      EXPECT_EQ(traced().waiting(), all.size());
      runtime().deallocate(bad.block());
    });
    for (std::size_t i = 0; i < all.size(); ++i) {
      if (i == 2) {
        EXPECT_TRUE(throws(errc::stale_ref, "freed", [&] { (void)answer_of(answers[i]); }));
      } else {
        expect_equal(answer_of(answers[i]), results_of({program, {all[i], shift()}}));
      }
    }
  }
}

TEST_P(batched_programs, pass_the_failure_of_an_earlier_launch_on_to_the_run_that_reads_it) {
  if (GetParam() != "host") GTEST_SKIP() << "single launches fail on the host device only";
  for (const std::size_t axis : {0, 1}) {
    lie_along(axis);
    const auto program = spectrogram();
    const auto all = clips(6);
    std::vector<sluice::run> runs;
    for (const auto& clip : all) runs.push_back({.what = program, .inputs = {clip, shift()}});
    for (auto& answer : submit_together(runs)) (void)answer_of(answer);
    faults().fail_nth(fault_target::launch, 1);
    EXPECT_TRUE(throws(errc::library_failure, "",
                       [&] { (void)run(test_executor(), fill{.value = 1, .y = all[2]}); }));
    auto answers = submit_at_once(runs);
    for (std::size_t i = 0; i < all.size(); ++i) {
      if (i == 2) {
        EXPECT_TRUE(throws(errc::upstream_failed, "", [&] { (void)answer_of(answers[i]); }));
      } else {
        expect_equal(answer_of(answers[i]), results_of({program, {all[i], shift()}}));
      }
    }
    EXPECT_EQ(launches(), sizes{5});
  }
}

TEST_P(batched_programs, leave_out_what_was_cancelled_before) {
  for (const std::size_t axis : {0, 1}) {
    lie_along(axis);
    const auto program = spectrogram();
    const auto all = clips(6);
    std::vector<sluice::run> runs;
    for (const auto& clip : all) runs.push_back({.what = program, .inputs = {clip, shift()}});
    for (auto& answer : submit_together(runs)) (void)answer_of(answer);
    const request_sender sender{7};
    std::optional<pending<tensors>> cancelled;
    auto answers = submit_at_once(runs, {}, [&] {
      cancelled = submit(traced(), runs[1], {.id = 5}, sender);
      traced().cancel(sender, 5);
    });
    EXPECT_TRUE(throws(errc::cancelled, "", [&] { (void)answer_of(*cancelled); }));
    for (std::size_t i = 0; i < all.size(); ++i) {
      expect_equal(answer_of(answers[i]), results_of({program, {all[i], shift()}}));
    }
    EXPECT_EQ(launches(), sizes{6});
  }
}

TEST_P(batched_programs, share_no_launch_with_other_shared_inputs_and_other_sizes) {
  const auto program = spectrogram();
  const auto all = clips(6);
  const auto other = numbers({n_mels, 1});
  const auto longer = numbers({1, samples + 20});
  std::vector<sluice::run> runs;
  for (std::size_t i = 0; i < 6; ++i) {
    runs.push_back({.what = program, .inputs = {all[i], i % 2 == 0 ? shift() : other}});
  }
  runs.push_back({.what = program, .inputs = {longer, shift()}});
  auto answers = submit_together(std::move(runs));
  for (std::size_t i = 0; i < 6; ++i) {
    expect_equal(answer_of(answers[i]),
                 results_of({program, {all[i], i % 2 == 0 ? shift() : other}}));
  }
  expect_equal(answer_of(answers[6]), results_of({program, {longer, shift()}}));
  EXPECT_EQ(launches(), (sizes{3, 3, 1}));
}

TEST_P(batched_programs, are_bit_for_bit_as_if_alone_on_request) {
  for (const std::size_t axis : {0, 1}) {
    lie_along(axis);
    const auto program = spectrogram();
    const auto all = clips(5);
    std::vector<sluice::run> runs;
    for (const auto& clip : all) runs.push_back({.what = program, .inputs = {clip, shift()}});
    auto answers = submit_together(std::move(runs), {.bits = result_bits::as_if_alone});
    for (std::size_t i = 0; i < all.size(); ++i) {
      EXPECT_EQ(bits(answer_of(answers[i])[0]), bits(results_of({program, {all[i], shift()}})[0]));
    }
    EXPECT_EQ(launches(), sizes(5, 1));
  }
}

TEST_P(batched_programs, launch_alone_what_cannot_be_stacked) {
  const auto program = spectrogram();
  const auto strided = numbers({1, 2 * samples}).slice(1, 0, {}, 2);
  const auto clip = numbers({1, samples});
  const auto shift_on_host = get(shift());
  std::vector<sluice::run> runs;
  for (int i = 0; i < 2; ++i) {
    runs.push_back({.what = program, .inputs = {strided, shift()}});
    runs.push_back({.what = program, .inputs = {clip, shift_on_host}});
  }
  auto answers = submit_together(std::move(runs));
  for (std::size_t i = 0; i < 4; ++i) {
    expect_equal(answer_of(answers[i]),
                 results_of({program, {i % 2 == 0 ? strided : clip, shift()}}));
  }
  EXPECT_EQ(launches(), sizes(4, 1));
}

TEST_P(batched_programs, take_inputs_in_memory_of_the_process) {
  for (const std::size_t axis : {0, 1}) {
    lie_along(axis);
    const auto program = spectrogram();
    for (const std::size_t count : {2, 5, 64}) {
      const auto all = clips(count);
      std::vector<sluice::run> runs;
      for (std::size_t i = 0; i < count; ++i) {
        const bool on_host = i % 3 != 1;
        runs.push_back(
            {.what = program, .inputs = {on_host ? run_input(get(all[i])) : all[i], shift()}});
      }
      auto answers = submit_together(std::move(runs));
      for (std::size_t i = 0; i < count; ++i) {
        expect_equal(answer_of(answers[i]), results_of({program, {all[i], shift()}}));
      }
      EXPECT_EQ(launches(), sizes{count});
    }
  }
}

TEST_P(batched_programs, have_results_in_memory_of_the_process) {
  for (const std::size_t axis : {0, 1}) {
    lie_along(axis);
    const auto program = spectrogram();
    for (const std::size_t count : {2, 5, 64}) {
      const auto all = clips(count);
      std::vector<run_to_host> runs;
      for (std::size_t i = 0; i < count; ++i) {
        runs.push_back({.what = program, .inputs = {get(all[i]), shift()}});
      }
      auto answers = submit_together(std::move(runs));
      for (std::size_t i = 0; i < count; ++i) {
        const auto found = wait(traced(), answers[i]);
        tensors on_device;
        for (const auto& result : found) {
          on_device.push_back(run(test_executor(), sluice::upload{.values = result}));
        }
        expect_equal(on_device, results_of({program, {all[i], shift()}}));
      }
      EXPECT_EQ(launches(), sizes{count});
    }
  }
}

TEST_P(batched_programs, need_no_larger_plan_than_one_run) {
  // On a host device, two runs are no more work than a batch may have.
  const std::int64_t many_samples = GetParam() == "host" ? 20000 : 200000;
  const auto all = std::vector{numbers({1, many_samples}), numbers({1, many_samples})};
  // Of another program: compute-sanitizer does not know that the constants of this one are there
  // before the stream of a new executor.
  const auto scratch = prepare_of({.what = spectrogram(),
                                   .inputs = {tensor_spec::of(all[0]), tensor_spec::of(shift())}})
                           .scratch_bytes;
  const auto program = spectrogram();
  for (const bool fits_one : {true, false}) {
    // Not enough for two runs as one. On a host device each run has its own scratch memory. The
    // plans of steps, which may be captured, count twice.
    set_options({.max_device_bytes_of_plan = fits_one ? scratch / 4 * 7 : scratch / 2});
    if (!fits_one) {
      EXPECT_TRUE(throws(errc::unsupported, "max_device_bytes_of_plan", [&] {
        (void)run(traced(), sluice::run{program, {all[0], shift()}});
      }));
      continue;
    }
    auto answers = submit_together({{program, {all[0], shift()}}, {program, {all[1], shift()}}});
    for (std::size_t i = 0; i < all.size(); ++i) {
      expect_equal(answer_of(answers[i]), results_of({program, {all[i], shift()}}));
    }
    EXPECT_EQ(launches(), GetParam() == "host" ? sizes{2} : sizes(2, 1));
  }
}

/// On a lane with room for a few device commands.
class batched_programs_in_little_room : public batched_programs {
 protected:
  static constexpr std::size_t room = 9;  // device commands
  device_service_options options_of_service() override { return {.max_commands = room}; }
};

TEST_P(batched_programs_in_little_room, are_cut) {
  const auto program = spectrogram();
  const auto all = clips(33);
  std::vector<sluice::run> runs;
  for (const auto& clip : all) runs.push_back({.what = program, .inputs = {clip, shift()}});
  auto answers = submit_together(std::move(runs));
  for (std::size_t i = 0; i < all.size(); ++i) {
    expect_equal(answer_of(answers[i]), results_of({program, {all[i], shift()}}));
  }
  const auto found = launches();
  EXPECT_EQ(std::accumulate(found.begin(), found.end(), std::size_t{0}), all.size());
  EXPECT_GT(found.size(), 1U);
  if (GetParam() == "host") {
    EXPECT_EQ(found, (sizes{8, 8, 8, 8, 1}));  // a command for each run
  }
}

TEST_P(batched_programs, refuse_outputs_that_are_not_per_request) {
  program_builder p;
  const auto x = p.input("x", per_request);
  const auto sum = p.add("sum", reduce{.x = x});
  const auto program = std::move(p).build({sum}, {.max_in_batch = 4});
  const auto input = numbers({2, 3});
  EXPECT_TRUE(throws(errc::invalid_argument, "outputs[0]: is not per request", [&] {
    (void)results_of({program, {input}});
  }));
  EXPECT_TRUE(throws(errc::invalid_argument, "outputs[0]: is not per request", [&] {
    (void)executor_test::run(traced(), run_to_host{program, {input}});
  }));
}

// 1 + n / 16 frames of n samples: rounding makes 63 and 126 of 1000 and 2000, but 188 of 3000.
TEST_P(batched_programs, refuse_outputs_that_only_seem_to_be_per_request) {
  program_builder p;
  const auto signal = p.input("signal", per_request);
  const auto window = p.constant("window", host_tensor(element_type::f32, {64}));
  const auto frames =
      p.add("frames", frame_signal{.signal = signal, .window = window, .n_fft = 64, .hop = 16});
  const auto program = std::move(p).build({frames}, {.max_in_batch = 4});
  EXPECT_TRUE(throws(errc::invalid_argument,
                     "outputs[0]: is not per request: its shape is [63, 64] for one run and "
                     "[188, 64] for 3; step 'frames' computes it; axis 0 of an input per request "
                     "counts the runs, and signal has the shape [1000] in one run",
                     [&] {
                       (void)results_of({program, {numbers({1000})}});
                     }));
}

// The author took the only axis of a vector for data.
TEST_P(batched_programs, tell_that_axis_0_counts_the_runs) {
  program_builder p;
  const auto x = p.input("x", per_request);
  const auto y = p.constant("y", host_tensor(element_type::f32, {8}));
  const auto program = std::move(p).build({p.add("sum", add(x, y))}, {.max_in_batch = 4});
  EXPECT_TRUE(throws(errc::invalid_argument,
                     "when 2 runs are computed as one; axis 0 of an input per request counts the "
                     "runs, and x has the shape [8] in one run",
                     [&] {
                       (void)results_of({program, {numbers({8})}});
                     }));
}

TEST_P(batched_programs, refuse_options_without_meaning) {
  const auto built = [](std::size_t most, bool marked) {
    program_builder p;
    const auto x = marked ? p.input("x", per_request) : p.input("x");
    (void)std::move(p).build({p.add("twice", add(x, x))}, {.max_in_batch = most});
  };
  for (const std::size_t most : {std::size_t{0}, std::size_t{129}, ~std::size_t{0}}) {
    EXPECT_TRUE(throws(errc::invalid_argument, "max_in_batch: is", [&] { built(most, true); }));
  }
  EXPECT_TRUE(throws(errc::invalid_argument, "no input is per request", [&] { built(2, false); }));
  EXPECT_NO_THROW(built(128, true));
  EXPECT_NO_THROW(built(1, false));
}

INSTANTIATE_TEST_SUITE_P(devices, batched_programs, every_device(), parameter_name);
INSTANTIATE_TEST_SUITE_P(devices, batched_programs_in_little_room, every_device(), parameter_name);

}  // namespace
}  // namespace sluice::test
