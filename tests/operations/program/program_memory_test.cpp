// SPDX-License-Identifier: Apache-2.0
// Memory of the process in programs, memory that a step takes over, programs in programs, and
// programs that are prepared ahead.
#include "tests/operations/program/programs.hpp"
#include "tests/support/expect_error.hpp"
#include "tests/support/gate.hpp"
#include "tests/support/heap.hpp"

#include <sluice/runtime/memory_budget.hpp>

#include <gtest/gtest.h>

#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

namespace sluice::test {
namespace {

class program_memory : public programs {
 protected:
  /// A tensor in host memory, and the same numbers on the device.
  std::pair<host_tensor, tensor> both(const extents& shape) {
    const auto on_device = numbers(shape);
    return {get(on_device), on_device};
  }
};

TEST_P(program_memory, of_constants_is_copied_to_the_device_once) {
  const auto filterbank = both({5, 9});
  const auto window = both({16});
  const auto build_program = [&](bool on_host) {
    program_builder p;
    const auto clip = p.input("clip");
    const auto w =
        on_host ? p.constant("window", window.first) : p.constant("window", window.second);
    const auto f = on_host ? p.constant("filterbank", filterbank.first)
                           : p.constant("filterbank", filterbank.second);
    const auto frames = p.add("frames", frame_signal{.signal = clip, .window = w, .hop = 4});
    const auto power = p.add("power", power_spectrum{.x = p.add("fft", rfft{.x = frames})});
    return std::move(p).build({p.add("mel", gemm{.a = f, .b = power.transposed()})});
  };
  const auto of_host = build_program(true);
  EXPECT_EQ(of_host.text(),
            "clip = input\n"
            "window = constant f32[16]\n"
            "filterbank = constant f32[5, 9]\n"
            "frames = frame_signal(signal = clip, window = window)\n"
            "fft = rfft(x = frames)\n"
            "power = power_spectrum(x = fft)\n"
            "mel = gemm(a = filterbank, b = power.transposed())\n"
            "outputs: mel\n");
  std::vector<std::vector<std::uint32_t>> expected;
  const std::vector<std::int64_t> sizes{100, 37, 100, 64};
  std::vector<tensor> signals;
  for (const auto samples : sizes) {
    signals.push_back(numbers({samples}));
    expected.push_back(bits(results_of({build_program(false), {signals.back()}})[0]));
  }
  for (std::size_t i = 0; i < sizes.size(); ++i) {
    EXPECT_EQ(bits(results_of({of_host, {signals[i]}})[0]), expected[i]);
  }
  // From here on, each run is the only launch.
  const auto launches = runtime().statistics().launches;
  for (const auto& signal : signals) (void)results_of({of_host, {signal}});
  EXPECT_EQ(runtime().statistics().launches, launches + sizes.size());
}

TEST_P(program_memory, of_constants_is_given_back_with_the_last_executable) {
  const auto outstanding = runtime().statistics().bytes_outstanding;
  {
    program_builder p;
    const auto x = p.input("x");
    const auto c = p.constant("c", host_tensor(element_type::f32, {1 << 18}));
    const program program = std::move(p).build({p.add("sum", add(x, c))});
    const auto fresh = make_executor();
    (void)run(*fresh, sluice::run{program, {alone(fill{.shape = extents{1}})}});
    EXPECT_GE(runtime().statistics().bytes_outstanding, outstanding + (1U << 20U));
  }
  while (runtime().statistics().bytes_outstanding >= outstanding + (1U << 20U)) {
    runtime().reap_pending();
  }
}

TEST_P(program_memory, of_constants_is_filled_on_one_stream_of_the_executor) {
  const auto x = alone(fill{.value = 3, .shape = extents{1}});
  const auto copied = [&](float value) {
    program_builder p;
    const auto in = p.input("x");
    const auto c = p.constant("c", host_tensor(std::vector<float>{value}));
    return values(results_of({std::move(p).build({p.add("sum", add(in, c))}), {x}})[0]);
  };
  EXPECT_EQ(copied(1), std::vector<float>{4});
  const auto before = runtime().create_stream().id().index;
  for (int i = 0; i < 20; ++i) {
    EXPECT_EQ(copied(static_cast<float>(i)), std::vector<float>{3 + static_cast<float>(i)});
  }
  EXPECT_EQ(runtime().create_stream().id().index, before + 1);
}

// A program within another one, twice, brings its constants once.
TEST_P(program_memory, of_constants_is_shared_if_they_are_the_same) {
  const host_tensor table(std::vector<float>(1 << 18, 1));
  program_builder q;
  const auto signal = q.input("signal");
  const program inner = std::move(q).build({q.add("sum", add(signal, q.constant("table", table)))});
  program_builder p;
  auto value = p.input("x");
  for (int i = 0; i < 4; ++i) value = p.add("part", inner, {value}).front();
  const program program = std::move(p).build({value});
  const auto x = alone(fill{.value = 3, .shape = extents{1 << 18}});
  const auto outstanding = runtime().statistics().bytes_outstanding;
  (void)results_of({program, {x}, {x}});
  // One copy, and scratch memory for two intermediate values.
  EXPECT_LE(runtime().statistics().bytes_outstanding, outstanding + 3 * x.bytes() + 4096);
  EXPECT_EQ(values(x), std::vector<float>(1 << 18, 7));
}

TEST_P(program_memory, of_constants_may_be_none) {
  program_builder p;
  const auto x = p.input("x");
  const auto nothing = p.constant("nothing", host_tensor(element_type::f32, {0}));
  const auto none = p.constant("none", host_tensor(element_type::f32, {0, 3}));
  const program program = std::move(p).build(
      {p.add("sum", reduce{.x = nothing, .kind = reduction::sum}),
       p.add("product",
             gemm{.a = x, .b = x.transposed().slice(1, 0, 0), .c = none.transposed(), .beta = 1}),
       p.add("updated", gemm{.a = x.slice(0, 0, 0), .b = x.transposed(), .c = none, .beta = 1})});
  const auto results = results_of({program, {numbers({3, 3})}});
  EXPECT_EQ(values(results[0]), std::vector<float>{0});
  EXPECT_EQ(results[1].shape(), (extents{3, 0}));
  EXPECT_EQ(results[2].shape(), (extents{0, 3}));
}

/// Memory for one set of constants, not for two.
class few_constants : public program_memory {
 protected:
  static constexpr std::size_t bytes = std::size_t{4} << 20U;
  runtime_options options_of_runtime() override {
    runtime_options options;
    options.resource = make_budget_resource(make_async_resource(),
                                            std::make_shared<memory_budget>(bytes + bytes / 2));
    options.pinned_limit = std::size_t{1} << 20U;
    return options;
  }
};

// The constants of a dropped program make room for those of the next one.
TEST_P(few_constants, are_given_back_for_the_next_program) {
  const auto x = numbers({1});
  for (int round = 0; round < 4; ++round) {
    program_builder p;
    const auto in = p.input("x");
    auto sum = p.add("copy", strided_copy{.x = in});
    for (int i = 0; i < 64; ++i) {
      const auto table = p.constant("table", host_tensor(element_type::f32, {bytes / 4 / 64}));
      sum = p.add("sum", add(sum, table.slice(0, 0, 1)));
    }
    const program program = std::move(p).build({sum});
    // The plans of the dropped program are destroyed a little later.
    await([&] {
      try {
        (void)results_of({program, {x}});
        return true;
      } catch (const error& why) {
        if (!is_retryable(why.code())) throw;
        return false;
      }
    });
  }
}

// Programs that live take turns in the memory for the constants of one of them.
TEST_P(few_constants, are_given_up_for_another_program) {
  const auto x = numbers({1});
  const auto build_program = [](std::size_t size) {
    program_builder p;
    const auto in = p.input("x");
    const auto table = p.constant("table", host_tensor(std::vector<float>(size / 4)));
    return std::move(p).build({p.add("sum", add(in, table.slice(0, 0, 1)))});
  };
  const auto hopeless = build_program(2 * bytes);
  const std::vector<program> both_programs{build_program(bytes), build_program(bytes)};
  for (int round = 0; round < 6; ++round) {
    const auto& next = both_programs[static_cast<std::size_t>(round) % 2];
    // The plans of the other program are destroyed a little later.
    await([&] {
      try {
        EXPECT_EQ(bits(results_of({next, {x}})[0]), bits(x));
        return true;
      } catch (const error& why) {
        if (!is_retryable(why.code())) throw;
        return false;
      }
    });
    const auto plans = test_executor().status().plans.made;
    EXPECT_TRUE(throws(errc::over_budget, "constants", [&] { (void)results_of({hopeless, {x}}); }));
    (void)results_of({next, {x}});
    EXPECT_EQ(test_executor().status().plans.made, plans) << "a hopeless request has cost a plan";
  }
}

TEST_P(program_memory, of_inputs_is_copied_by_the_launch) {
  program_builder p;
  const auto x = p.input("x");
  const auto y = p.input("y");
  const auto unused = p.input("unused");
  (void)unused;
  const auto sum = p.add("sum", add(x, y));
  const program program = std::move(p).build({sum, p.add("product", gemm{.a = sum, .b = x})});
  for (const std::int64_t n : {1, 7, 200, 7}) {
    const auto [a, a_there] = both({n, n});
    const auto [b, b_there] = both({n, n});
    const auto expected = results_of({program, {a_there, b_there, small(1)}});
    const auto results =
        results_of({program, {a, b_there, host_tensor(std::vector<float>{3}, {1, 1})}});
    EXPECT_EQ(bits(results[0]), bits(expected[0]));
    EXPECT_EQ(bits(results[1]), bits(expected[1]));
    const auto again = results_of({program, {a, b, small(2)}, {operand(), numbers({n, n})}});
    EXPECT_EQ(bits(again[0]), bits(expected[0]));
    EXPECT_EQ(bits(again[1]), bits(expected[1]));
  }
  EXPECT_TRUE(throws(errc::invalid_argument, "step 'sum': b: has the shape", [&] {
    (void)results_of({program, {both({2, 2}).first, both({3, 3}).first, small(1)}});
  }));
}

TEST_P(program_memory, of_a_value_is_taken_over_by_its_last_update) {
  const std::int64_t n = 64;
  program_builder p;
  const auto x = p.input("x");
  auto sum = p.add("first", add(x, x));
  for (int i = 0; i < 6; ++i) {
    sum = p.add("more", gemm{.a = x, .b = x, .c = sum, .beta = 1});
  }
  const auto kept = sum;
  const auto updated = p.add("updated", gemm{.a = x, .b = x, .c = kept, .beta = 2});
  const auto both_used = p.add("both", add(kept, updated));
  const program program = std::move(p).build({both_used});
  const auto input = numbers({n, n});
  auto expected = alone(add(input, input));
  for (int i = 0; i < 6; ++i) {
    (void)alone(gemm{.a = input, .b = input, .c = expected, .beta = 1});
  }
  const auto second = alone(strided_copy{.x = expected});
  (void)alone(gemm{.a = input, .b = input, .c = second, .beta = 2});
  EXPECT_EQ(bits(results_of({program, {input}})[0]), bits(alone(add(expected, second))));
  const auto found = prepare_of({program, {tensor_spec::of(input)}});
  // The chain of updates needs one matrix, and the last update a copy of it.
  const auto matrix = static_cast<std::size_t>(n * n) * sizeof(float);
  EXPECT_EQ(found.scratch_bytes, 2 * matrix);
}

TEST_P(program_memory, is_known_once_a_program_is_prepared) {
  program_builder p;
  const auto x = p.input("x");
  const auto factor = p.scalar("factor");
  const auto spectrum = p.add("spectrum", rfft{.x = x});
  const auto power = p.add("power", power_spectrum{.x = spectrum});
  const program program =
      std::move(p).build({p.add("scaled", affine{.x = power, .factor = factor}), power});
  const auto spec = tensor_spec::row_major(element_type::f32, {3, 100});
  const auto found = prepare_of({.what = program, .inputs = {spec}, .scalars = {2}});
  ASSERT_EQ(found.outputs.size(), 2U);
  EXPECT_EQ(found.outputs[0], tensor_spec::row_major(element_type::f32, {3, 51}));
  EXPECT_EQ(found.outputs[1], found.outputs[0]);
  EXPECT_GE(found.scratch_bytes, 3U * 51U * 8U);
  EXPECT_GE(found.commands, 3U);
  const auto plans = test_executor().status().plans.made;
  (void)results_of({.what = program, .inputs = {numbers({3, 100})}, .scalars = {0.5}});
  EXPECT_EQ(test_executor().status().plans.made, plans);
  // Runs with a given output have an executable of their own.
  const auto with_output = prepare_of({program, {spec}, {std::nullopt, found.outputs[1]}, {2}});
  EXPECT_EQ(with_output.outputs, found.outputs);
  EXPECT_EQ(test_executor().status().plans.made, plans + 1);
  const auto y = numbers(found.outputs[1].shape);
  (void)results_of({program, {numbers({3, 100})}, {operand(), y}, {0.5}});
  EXPECT_EQ(test_executor().status().plans.made, plans + 1);
  const auto refused = [&](const char* text, sluice::prepare request) {
    EXPECT_TRUE(
        throws(errc::invalid_argument, text, [&] { (void)prepare_of(std::move(request)); }));
  };
  refused("what: is no program", {});
  refused("inputs: there are 0", {program});
  refused("scalars: there are 0", {program, {found.outputs[0]}});
  refused("outputs: there is 1", {program, {spec}, {found.outputs[0]}, {1}});
  refused("outputs[1]: has the shape [3, 100]", {program, {spec}, {std::nullopt, spec}, {1}});
  auto wrong = found.outputs[0];
  wrong.alignment = 3;
  refused("x: alignment: is 3", {program, {wrong}, {}, {1}});
  wrong = found.outputs[0];
  wrong.strides = {1};
  refused("x: ", {program, {wrong}, {}, {1}});
  refused("step 'spectrum': x: ",
          {program, {tensor_spec::row_major(element_type::i32, {3})}, {}, {1}});
}

TEST_P(program_memory, is_shared_with_the_programs_inside) {
  const auto [table, table_there] = both({4});
  program_builder q;
  const auto signal = q.input("signal");
  const auto gain = q.scalar("gain");
  const auto offset = q.scalar("offset");
  const auto sum = q.add("sum", add(signal, q.constant("table", table)));
  const auto scaled = q.add("scaled", affine{.x = sum, .factor = gain, .offset = offset});
  const program inner = std::move(q).build({scaled.reshape({2, 2}), sum});

  program_builder p;
  const auto x = p.input("x");
  const auto level = p.scalar("level");
  const auto first = p.add("first", inner, {x}, {level, 1});
  ASSERT_EQ(first.size(), 2U);
  const auto second = p.add("second", inner, {first[1]}, {3, level});
  const program outer = std::move(p).build({first[0].transposed(), second[0]});
  EXPECT_EQ(outer.text(),
            "level = scalar\n"
            "x = input\n"
            "first.table = constant f32[4]\n"
            "first.sum = add(a = x, b = first.table)\n"
            "first.scaled = affine(x = first.sum, factor = level, offset = 1)\n"
            "second.table = constant f32[4]\n"
            "second.sum = add(a = first.sum, b = second.table)\n"
            "second.scaled = affine(x = second.sum, factor = 3, offset = level)\n"
            "outputs: first.scaled.reshape([2, 2]).transposed(), second.scaled.reshape([2, 2])\n");
  const auto input = numbers({4});
  const auto results = results_of({.what = outer, .inputs = {input}, .scalars = {0.25}});
  const auto one = alone(add(input, table_there));
  const auto two = alone(add(one, table_there));
  const auto expected = alone(affine{.x = one, .factor = scalar(0.25), .offset = scalar(1)});
  EXPECT_EQ(values(results[0]), values(expected.reshape({2, 2}).transposed()));
  EXPECT_EQ(bits(results[1]),
            bits(alone(affine{.x = two, .factor = scalar(3), .offset = scalar(0.25)})));

  program_builder r;
  const auto y = r.input("y");
  EXPECT_TRUE(throws(errc::invalid_argument, "step 'inner': inputs: there are 0",
                     [&] { (void)r.add("inner", inner, {}); }));
  EXPECT_TRUE(throws(errc::invalid_argument, "step 'inner': scalars: there are 0",
                     [&] { (void)r.add("inner", inner, {y}); }));
  EXPECT_TRUE(
      throws(errc::invalid_argument, "step 'inner': signal: is a value of another program", [&] {
        (void)r.add("inner", inner, {x}, {1, 1});
      }));
  EXPECT_TRUE(
      throws(errc::invalid_argument, "step 'inner': gain: is a scalar of another program", [&] {
        (void)r.add("inner", inner, {y}, {level, 1});
      }));
  EXPECT_TRUE(throws(errc::invalid_argument, "inner: is no program",
                     [&] { (void)r.add("inner", program(), {y}); }));
}

// `executor_options::max_plan_bytes` bounds the host memory only if the count is right.
TEST_P(program_memory, of_an_executable_is_counted) {
  if (heap_in_use() == 0) GTEST_SKIP() << "the heap is that of a sanitizer";
  for (const auto capture : {capture_policy::never, capture_policy::automatic}) {
    program_builder p;
    auto sum = p.input("x");
    for (int i = 0; i < 30; ++i) sum = p.add("sum", add(sum, sum));
    const auto program = std::move(p).build({sum}, {.capture = capture});
    // The compiler of kernels takes memory, too.
    (void)await_kernels(program, {numbers({1, 4})});
    std::int64_t rows = 0;
    const auto prepare_next = [&](int count) {
      for (int i = 0; i < count; ++i) {
        (void)prepare_of(
            {.what = program, .inputs = {tensor_spec::row_major(element_type::f32, {++rows, 4})}});
      }
    };
    prepare_next(100);  // also the runs that the program remembers
    const auto heap = heap_in_use();
    const auto before = test_executor().status().plans;
    prepare_next(400);
    const auto grown = heap_in_use() - heap;
    const auto counted = test_executor().status().plans.kept_bytes - before.kept_bytes;
    EXPECT_EQ(test_executor().status().plans.kept, before.kept + 400U);
    EXPECT_LE(grown, counted + counted / 4);
    EXPECT_GE(grown, counted / 4);
  }
}

INSTANTIATE_TEST_SUITE_P(devices, few_constants, every_device(), parameter_name);
INSTANTIATE_TEST_SUITE_P(devices, program_memory, every_device(), parameter_name);

}  // namespace
}  // namespace sluice::test
