// SPDX-License-Identifier: Apache-2.0
// Programs: many operations as one launch.
#include "tests/operations/program/programs.hpp"
#include "tests/support/compute_sanitizer.hpp"
#include "tests/support/expect_error.hpp"
#include "tests/support/gate.hpp"

#include <sluice/envelope/chrome_trace.hpp>

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <stdexcept>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

namespace sluice::test {
namespace {

TEST_P(programs, compute_what_their_steps_compute) {
  const auto filterbank = numbers({5, 9});
  const auto window = numbers({16});
  program_builder p;
  const auto clip = p.input("clip");
  const auto frames = p.add("frames", frame_signal{.signal = clip, .window = window, .hop = 4});
  const auto power = p.add("power", power_spectrum{.x = p.add("fft", rfft{.x = frames})});
  const auto mel = p.add("mel", gemm{.a = filterbank, .b = power.transposed()});
  const auto loudest = p.add("loudest", reduce{.x = mel, .kind = reduction::max});
  const program spectrogram = std::move(p).build({mel, loudest});
  for (const std::int64_t samples : {100, 37, 100}) {
    const auto signal = numbers({samples});
    const auto results = results_of({spectrogram, {signal}});
    ASSERT_EQ(results.size(), 2U);
    const auto f = run(test_executor(), frame_signal{.signal = signal, .window = window, .hop = 4});
    const auto s = run(test_executor(), power_spectrum{.x = run(test_executor(), rfft{.x = f})});
    const auto m = run(test_executor(), gemm{.a = filterbank, .b = s.transposed()});
    EXPECT_EQ(values(results[0]), values(m));
    EXPECT_EQ(values(results[1]),
              values(run(test_executor(), reduce{.x = m, .kind = reduction::max})));
  }
  EXPECT_EQ(spectrogram.text(),
            "clip = input\n"
            "frames.window = constant f32[16]\n"
            "frames = frame_signal(signal = clip, window = frames.window)\n"
            "fft = rfft(x = frames)\n"
            "power = power_spectrum(x = fft)\n"
            "mel.a = constant f32[5, 9]\n"
            "mel = gemm(a = mel.a, b = power.transposed())\n"
            "loudest = reduce(x = mel)\n"
            "outputs: mel, loudest\n");
}

TEST_P(programs, update_no_value) {
  const auto c = numbers({3, 3});
  const auto before = values(c);
  program_builder p;
  const auto a = p.input("a");
  const auto once = p.add("once", gemm{.a = a, .b = a, .c = c, .beta = 1});
  const auto twice = p.add("twice", gemm{.a = a, .b = a, .c = once, .beta = 1});
  const program accumulate = std::move(p).build({once, twice});
  const auto x = numbers({3, 3});
  const auto results = results_of({accumulate, {x}});
  EXPECT_EQ(values(c), before);
  const auto expected = run(test_executor(), strided_copy{.x = c});
  (void)run(test_executor(), gemm{.a = x, .b = x, .c = expected, .beta = 1});
  EXPECT_EQ(values(results[0]), values(expected));
  (void)run(test_executor(), gemm{.a = x, .b = x, .c = expected, .beta = 1});
  EXPECT_EQ(values(results[1]), values(expected));
}

TEST_P(programs, are_one_launch) {
  program_builder p;
  auto value = p.input("x");
  for (int i = 0; i < 50; ++i) value = p.add("step", add(value, value));
  const program doubled = std::move(p).build({value});
  const auto x = numbers({1000});
  (void)results_of({doubled, {x}});
  const auto plans = test_executor().status().plans.made;
  const auto before = runtime().statistics();
  (void)results_of({doubled, {x}});
  EXPECT_EQ(runtime().statistics().launches, before.launches + 1);
  EXPECT_EQ(test_executor().status().plans.made, plans);
  // Two values are alive at a time.
  EXPECT_LE(before.peak_bytes, before.bytes_outstanding + 3 * 4096);
}

// Each of fifty steps adds the last value to one of the eight values before it. Every twelve steps
// the values lose half of their rows.
TEST_P(programs, take_no_more_scratch_than_their_largest_live_set) {
  constexpr std::size_t steps = 50;
  constexpr std::int64_t columns = 512;
  auto generator = make_generator();
  for (int round = 0; round < 20; ++round) {
    struct value {
      program_value in_program;
      std::size_t bytes;  // in scratch memory
      std::size_t last;   // the last step that reads it
    };
    program_builder p;
    std::int64_t rows = 1024;
    const auto input = tensor_spec::row_major(element_type::f32, {rows, columns});
    std::vector<value> values{{p.input("x"), 0, 0}};
    for (std::size_t step = 1; step <= steps; ++step) {
      if (step % 12 == 0) rows /= 2;
      const auto distance = generator() % std::min<std::size_t>(values.size(), 9);
      auto& last = values.back();
      auto& earlier = values[values.size() - 1 - distance];
      last.last = earlier.last = step;
      const auto sum = p.add(
          "sum", add(last.in_program.slice(0, 0, rows), earlier.in_program.slice(0, 0, rows)));
      values.push_back({sum, static_cast<std::size_t>(rows * columns) * sizeof(float), step});
    }
    values.back().bytes = 0;  // an output
    const program program = std::move(p).build({values.back().in_program});
    std::size_t largest = 0;
    for (std::size_t step = 1; step <= steps; ++step) {
      std::size_t live = 0;
      for (std::size_t v = 0; v <= step; ++v) {
        if (values[v].last >= step) live += values[v].bytes;
      }
      largest = std::max(largest, live);
    }
    EXPECT_LE(run(test_executor(), sluice::prepare{program, {input}}).scratch_bytes, largest);
  }
}

TEST_P(programs, are_not_prepared_for_inputs_that_the_device_cannot_hold) {
  program_builder p;
  const auto x = p.input("x");
  const program sums = std::move(p).build({p.add("sum", add(x, x))});
  const auto prepared_for = [&](std::int64_t count) {
    return run(test_executor(),
               sluice::prepare{sums, {tensor_spec::row_major(element_type::f32, {count})}});
  };
  EXPECT_TRUE(throws(errc::out_of_memory, "inputs: take",
                     [&] { (void)prepared_for(std::int64_t{1} << 44U); }));
  EXPECT_EQ(prepared_for(1024).outputs.size(), 1U);
}

TEST_P(programs, refuse_what_a_step_refuses_with_its_name) {
  program_builder p;
  const auto x = p.input("x");
  const auto y = p.input("y");
  const auto sum = p.add("sum", add(x, y));
  const program program = std::move(p).build({sum.transposed()});
  const auto refused = [&](errc code, const char* text, sluice::run request) {
    SCOPED_TRACE(text);
    const auto before = runtime().statistics();
    EXPECT_TRUE(throws(code, text, [&] { (void)results_of(request); }));
    EXPECT_EQ(runtime().statistics().launches, before.launches);
    EXPECT_EQ(runtime().statistics().blocks, before.blocks);
  };
  const auto a = numbers({3, 4});
  const auto b = numbers({4, 4});
  refused(errc::invalid_argument, "what: is no program", {});
  refused(errc::invalid_argument, "inputs: there is 1", {program, {a}});
  refused(errc::invalid_argument, "y: is not given", {program, {a, run_input()}});
  refused(errc::invalid_argument, "step 'sum': b: ", {program, {a, b}});
  refused(errc::invalid_argument, "step 'sum': ",
          {program, {a, run(test_executor(), cast{.x = a, .type = element_type::f64})}});
  refused(errc::invalid_argument,
          "view 'sum.transposed()': ", {program, {numbers({4}), numbers({4})}});
  auto freed = numbers({3, 4});
  const auto stale = freed;
  runtime().deallocate(freed.block());
  refused(errc::stale_ref, "x", {program, {stale, a}});
  EXPECT_EQ(results_of({program, {a, a}})[0].shape(), (extents{4, 3}));
}

TEST_P(programs, require_the_alignment_of_what_they_reinterpret) {
  program_builder p;
  const auto x = p.input("x");
  const auto pairs = x.reinterpret(element_type::c64);
  const program program = std::move(p).build({p.add("power", power_spectrum{.x = pairs})});
  const auto all = numbers({9});
  EXPECT_EQ(bits(results_of({program, {all.slice(0, 2, 8)}})[0]),
            bits(alone(power_spectrum{.x = all.slice(0, 2, 8).reinterpret(element_type::c64)})));
  EXPECT_TRUE(throws(errc::invalid_argument,
                     "view 'x.reinterpret(c64)': the first element is known to be aligned", [&] {
                       (void)results_of({program, {all.slice(0, 1, 9)}});
                     }));
}

TEST_P(programs, may_ignore_operands_that_have_been_freed) {
  auto freed = numbers({3, 3});
  program_builder p;
  const auto x = p.input("x");
  const auto zero = p.add("zero", gemm{.a = x, .b = freed, .alpha = 0});
  const program program = std::move(p).build({zero});
  runtime().deallocate(freed.block());
  EXPECT_EQ(values(results_of({program, {numbers({3, 3})}})[0]), std::vector<float>(9, 0.0F));
}

// A lane admits by device commands; an idle one takes any launch.
TEST_P(programs, of_many_commands_wait_until_the_lane_is_idle) {
  if (under_compute_sanitizer()) GTEST_SKIP() << "the driver's queue takes fewer commands";
  program_builder p;
  auto value = p.input("x");
  for (int i = 0; i < 900; ++i) value = p.add("step", add(value, value));
  const program program = std::move(p).build({value}, {.fuse = false});
  const auto x = alone(fill{.value = 0, .shape = extents{8}});
  (void)results_of({program, {x}});
  std::atomic<int> answered{0};
  const auto count = [&, alarm = waking_alarm()](const auto&) {
    ++answered;
    alarm->ring();
  };
  {
    gate closed;
    closed.hold(test_executor().lane().stream());
    for (int i = 0; i < 3; ++i) {
      test_executor().submit(sluice::run{program, {x}}, {},
                             reply_token<tensors>::from(count, count));
    }
    EXPECT_EQ(test_executor().lane().in_flight(), 1U);
    EXPECT_EQ(test_executor().status().requests, 2U);
  }
  for (test_executor().work(); answered != 3; test_executor().work()) waking_alarm()->await();
}

TEST(program_builder, refuses_what_can_be_no_program) {
  program_builder p;
  const auto x = p.input("x");
  program_builder other;
  const auto foreign = other.input("x");
  const auto refused = [](errc code, const char* text, const auto& work) {
    SCOPED_TRACE(text);
    EXPECT_TRUE(throws(code, text, work));
  };
  refused(errc::invalid_argument, "step 'sum': b: is a value of another program",
          [&] { (void)p.add("sum", add(x, foreign)); });
  refused(errc::unsupported, "step 'up': upload cannot be a step",
          [&] { (void)p.add("up", sluice::upload{.values = std::vector<float>{1}}); });
  refused(errc::unsupported, "step 'down': download cannot be a step",
          [&] { (void)p.add("down", sluice::download{.x = x}); });
  refused(errc::invalid_argument, "outputs: output 0 is no result",
          [&] { (void)std::move(p).build({x.transposed()}); });
  refused(errc::invalid_argument, "outputs: are not given", [&] { (void)std::move(p).build({}); });
  refused(errc::invalid_argument, "name: is empty: name the input", [&] { (void)p.input(""); });
  refused(errc::invalid_argument, "name: is empty: name the input",
          [&] { (void)p.input("", per_request); });
  refused(errc::invalid_argument, "name: is empty: name the scalar", [&] { (void)p.scalar(""); });
  refused(errc::invalid_argument, "name: is empty: name the constant",
          [&] { (void)p.constant("", host_tensor(std::vector<float>{1})); });
  refused(errc::invalid_argument, "name: is empty: name the step",
          [&] { (void)p.add("", add(x, x)); });
  const auto sum = p.add("sum", add(x, x));
  refused(errc::invalid_argument, "outputs: output 1 is a value of another", [&] {
    (void)std::move(p).build({sum, foreign});
  });
  (void)std::move(p).build({sum});
  refused(errc::invalid_argument, "program_builder: the program has been built",
          [&] { (void)sum.transposed(); });
  refused(errc::invalid_argument, "program_builder: the program has been built",
          [&] { (void)std::move(p).build({sum}); });
}

TEST_P(programs, pack_what_their_steps_do_not_take) {
  const auto window = numbers({8});
  const auto image = numbers({6, 7, 3});
  const auto filters = numbers({4, 3, 2, 2}).slice(0, 0, 4, 2);
  program_builder p;
  const auto x = p.input("x");
  const auto channels = x.permute({2, 0, 1}).reshape({1, 3, 6, 7});
  const auto filtered = p.add("filtered", conv2d{.x = channels, .w = filters});
  const auto signals = filtered.select(0, 0).permute({1, 2, 0});  // the last dimension has gaps
  const auto spectrum = p.add("spectrum", rfft{.x = signals});
  const auto power = p.add("power", power_spectrum{.x = spectrum});
  const auto noise = p.add("noise", random_normal{.shape = extents{5, 6, 2}, .seed = 7});
  const auto sum = p.add("sum", add(power, noise));
  const auto one = p.add("one", fill{.value = 1, .shape = extents{5, 6, 2}});
  const program program = std::move(p).build(
      {filtered.transposed(), p.add("last", subtract(sum, one.transposed().transposed()))});
  for (int round = 0; round < 2; ++round) {
    const auto results = results_of({program, {image}});
    const auto f = alone(conv2d{.x = image.permute({2, 0, 1}).reshape({1, 3, 6, 7}), .w = filters});
    const auto s = alone(power_spectrum{.x = alone(rfft{.x = f.select(0, 0).permute({1, 2, 0})})});
    const auto n = alone(random_normal{.shape = extents{5, 6, 2}, .seed = 7});
    const auto ones = alone(fill{.value = 1, .shape = extents{5, 6, 2}});
    EXPECT_EQ(bits(results[0]), bits(f.transposed()));
    EXPECT_EQ(bits(results[1]), bits(alone(subtract(alone(add(s, n)), ones))));
  }
}

/// y = x. Fails in the launch if x is 0. Counts its launches.
struct failing {
  operand x{};
  operand y{};
  std::shared_ptr<std::atomic<int>> launches{};
  static constexpr auto members() {
    return std::make_tuple(input("x", &failing::x), output("y", &failing::y),
                           parameter("launches", &failing::launches));
  }
};
struct failing_call {
  std::size_t count;
  std::atomic<int>* launches;
};
const operation_descriptor& descriptor_of(operation_type<failing>) {
  static const typed_operation_descriptor<failing, failing_call> descriptor(
      {.name = "failing",
       .infer = [](const failing& op, inference& inference) -> failing_call {
         const auto& x = inference.require(op.x);
         (void)inference.result(op.y, x.type, x.shape);
         return {x.size(), op.launches.get()};
       },
       .host = {.library = "test"},
       .compute =
           [](const failing_call& call, const launch_of<failing>& launch) {
             ++*call.launches;
             const auto* const x = launch.get<const float>(&failing::x);
             if (x[0] == 0) throw std::runtime_error("x is 0");
             std::copy_n(x, call.count, launch.get<float>(&failing::y));
           }});
  return descriptor;
}

TEST_P(programs, fail_as_a_whole) {
  if (runtime().device().id().kind != device_kind::host) GTEST_SKIP() << "a step of the host";
  const auto first = std::make_shared<std::atomic<int>>();
  const auto second = std::make_shared<std::atomic<int>>();
  program_builder p;
  const auto x = p.input("x");
  const auto once = p.add("once", failing{.x = x, .launches = first});
  const auto twice = p.add("twice", failing{.x = once, .launches = second});
  const program program = std::move(p).build({once, twice});
  const auto zero = alone(fill{.value = 0, .shape = extents{2}});
  EXPECT_TRUE(throws(errc::library_failure, "step 'once': x is 0", [&] {
    (void)results_of({program, {zero}});
  }));
  EXPECT_EQ(*first, 1);
  EXPECT_EQ(*second, 0);
  const auto early = results_of({program, {zero}}, {.reply = reply_on::enqueued});
  for (const auto& output : early) {
    EXPECT_TRUE(throws(errc::upstream_failed, "", [&] { (void)get(output); }));
  }
  EXPECT_EQ(values(results_of({program, {alone(fill{.value = 3, .shape = extents{2}})}})[1]),
            std::vector<float>(2, 3));
}

/// Keeps what traces see of the steps of each launch.
struct step_trace final : kernel_trace {
  [[nodiscard]] bool wants_timestamps() const noexcept override { return true; }
  void after_timestamps(const kernel_info&, const kernel_times& launch_times) override {
    const std::lock_guard lock(mutex);
    times.push_back(launch_times);
  }
  void after_complete(const kernel_info& info, const kernel_outcome&) override {
    const std::lock_guard lock(mutex);
    seen.push_back(std::string(info.operation) + ": " + std::string(info.steps));
  }
  /// Waits for the times of the first `count` launches.
  std::vector<kernel_times> await_times(std::size_t count) {
    std::vector<kernel_times> copies;
    await([&] {
      const std::lock_guard lock(mutex);
      copies = times;
      return copies.size() >= count;
    });
    return copies;
  }
  std::mutex mutex;
  std::vector<std::string> seen;
  std::vector<kernel_times> times;
};

TEST_P(programs, show_traces_their_steps) {
  const auto trace = std::make_shared<step_trace>();
  const auto shown = std::make_shared<chrome_trace>();
  std::string json;
  {
    executor traced(service(), std::make_shared<fan_out_trace>(
                                   std::vector<std::shared_ptr<kernel_trace>>{trace, shown}));
    traced.on_wake(waking());
    program_builder p;
    const auto x = p.input("x");
    const auto power = p.add("power", power_spectrum{.x = p.add("spectrum", rfft{.x = x})});
    program loudest_program = std::move(p).build({p.add("loudest", reduce{.x = power})});
    (void)run(traced, sluice::run{loudest_program, {numbers({64})}}, {.tag = "clip 7"});
    loudest_program = program();
    (void)run(traced, add(small(1), small(2)));
    json = shown->json();
  }
  EXPECT_EQ(trace->seen, (std::vector<std::string>{"program: spectrum, power, loudest", "add: "}));
  EXPECT_NE(json.find("\"steps\":\"spectrum, power, loudest\""), std::string::npos);
  EXPECT_NE(json.find("\"tag\":\"clip 7\""), std::string::npos);
}

TEST_P(programs, show_traces_when_their_steps_have_ended) {
  const auto trace = std::make_shared<step_trace>();
  executor traced(service(), trace);
  traced.on_wake(waking());
  program_builder p;
  auto value = p.input("x");
  for (int i = 0; i < 20; ++i) value = p.add("sum", add(value, value));
  const program long_program = std::move(p).build({value});
  program_builder q;
  const auto x = q.input("x");
  const auto spectrum = q.add("spectrum", rfft{.x = x.transposed()});
  const program short_program = std::move(q).build({q.add("power", power_spectrum{.x = spectrum})});
  (void)run(traced, sluice::run{short_program, {numbers({64, 3})}});
  (void)run(traced, add(small(1), small(2)));
  (void)run(traced, sluice::run{long_program, {numbers({8})}});
  // The first step is computed once, and its scale is packed once.
  program_builder r;
  const auto twice =
      r.add("twice", affine{.x = r.constant("c", get(numbers({8, 2}))), .factor = 2});
  const auto norm = r.add("norm", layer_norm{.x = r.input("x"), .scale = twice.select(1, 0)});
  const program constant_program = std::move(r).build({norm});
  (void)run(traced, sluice::run{constant_program, {numbers({3, 8})}});
  const auto times = trace->await_times(4);
  const bool on_host = runtime().device().id().kind == device_kind::host;
  const std::array<std::size_t, 4> counts{2, 0, times[2].step_ends.size(), 2};
  for (std::size_t launch = 0; launch < counts.size(); ++launch) {
    const auto& t = times[launch];
    ASSERT_EQ(t.step_count, on_host ? counts[launch] : 0U);
    auto previous = t.begun.value_or(t.enqueued);
    if (t.step_count != 0) {
      EXPECT_GE(t.steps_begun, previous);
      previous = t.steps_begun;
    }
    for (std::size_t i = 0; i < t.step_count; ++i) {
      EXPECT_GE(t.step_ends[i], previous);
      previous = t.step_ends[i];
    }
    EXPECT_LE(previous, t.ended.value_or(t.detected));
  }
}

TEST_P(programs, may_have_many_inputs) {
  program_builder p;
  std::vector<run_input> inputs;
  auto sum = p.input("input");
  inputs.emplace_back(numbers({5}));
  auto expected = inputs[0].on_device();
  for (int i = 1; i < 70; ++i) {
    sum = p.add("sum", add(sum, p.input("input")));
    inputs.emplace_back(numbers({5}));
    expected = alone(add(expected, inputs.back().on_device()));
  }
  const program program = std::move(p).build({sum});
  EXPECT_EQ(bits(results_of({program, inputs})[0]), bits(expected));
}

TEST_P(programs, of_many_shapes_stay_in_the_bytes_of_the_cache) {
  program_builder p;
  const auto x = p.input("x");
  const auto spectrum = p.add("spectrum", rfft{.x = x});
  const program program = std::move(p).build({p.add("power", power_spectrum{.x = spectrum})});
  for (std::int64_t n = 1; n <= 100; ++n) (void)results_of({program, {numbers({n})}});
  const auto plans = test_executor().status().plans;
  EXPECT_GE(plans.made, 100U);
  EXPECT_LE(plans.kept_bytes, executor_options().max_plan_bytes);
  EXPECT_LE(plans.alive, plans.kept + 64);
}

TEST_P(programs, are_dropped_while_they_are_planned) {
  program_builder p;
  const auto x = p.input("x");
  program double_program = std::move(p).build({p.add("double", add(x, x))});
  for (int round = 0; round < 20; ++round) {
    std::atomic<int> replies{0};
    auto fresh = make_executor();
    fresh->submit(sluice::run{double_program, {numbers({4})}}, {.id = 3},
                  reply_token<tensors>::from([&](const tensors&) { ++replies; },
                                             [&](const error&) { ++replies; }));
    if (round % 2 == 0) fresh->cancel({}, 3);
    if (round == 19) double_program = program();
    fresh.reset();
    await([&] { return replies == 1; });
  }
}

TEST_P(programs, keep_a_value_from_a_single_request) {
  program_builder p;
  const auto x = p.input("x");
  EXPECT_TRUE(throws(errc::invalid_argument, "b: is a value of a program",
                     [&] { (void)run(test_executor(), add(numbers({2}), x)); }));
}

INSTANTIATE_TEST_SUITE_P(devices, programs, every_device(), parameter_name);

}  // namespace
}  // namespace sluice::test
