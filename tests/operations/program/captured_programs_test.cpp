// SPDX-License-Identifier: Apache-2.0
// Programs that are captured, as graphs of a GPU, equal their steps.
#include "tests/operations/program/programs.hpp"
#include "tests/operations/program/random_program.hpp"
#include "tests/support/compute_sanitizer.hpp"
#include "tests/support/expect_error.hpp"
#include "tests/support/forwarding_device.hpp"
#include "tests/support/gate.hpp"

#include <sluice/runtime/dlpack.hpp>
#include <sluice/runtime/memory_resource.hpp>

#include <gtest/gtest.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

namespace sluice::test {
namespace {

constexpr program_options not_captured{.capture = capture_policy::never};
constexpr program_options captured_early{.capture = capture_policy::at_prepare};
constexpr program_options captured_later{.capture = capture_policy::automatic};

class captured_programs : public programs {
 protected:
  [[nodiscard]] bool has_graphs() { return runtime().device().id().kind == device_kind::cuda; }
  /// What is known of runs with inputs like `inputs`.
  prepared prepared_for(const program& program, const std::vector<tensor>& inputs,
                        const std::vector<std::optional<tensor_spec>>& outputs = {}) {
    std::vector<tensor_spec> specs;
    for (const auto& input : inputs) specs.push_back(tensor_spec::of(input));
    return prepare_of({.what = program, .inputs = specs, .outputs = outputs});
  }
  /// A program of steps of several libraries over a matrix.
  static program of_many_libraries(const program_options& options) {
    program_builder p;
    const auto x = p.input("x");
    const auto noise = p.add("noise", random_normal{.shape = extents{24, 64}, .seed = 3});
    const auto sum = p.add("sum", add(x, noise));
    const auto product = p.add("product", gemm{.a = sum, .b = x.transposed()});
    const auto spectrum = p.add("spectrum", rfft{.x = sum});
    const auto power = p.add("power", power_spectrum{.x = spectrum});
    const auto image =
        p.add("image", resize{.x = sum.reshape({24, 64, 1}), .sizes = {12, 16}, .axes = {0, 1}});
    const auto filters = p.add("filters", random_uniform{.shape = extents{2, 1, 3, 3}, .seed = 4});
    const auto filtered = p.add(
        "filtered", conv2d{.x = image.permute({2, 0, 1}).reshape({1, 1, 12, 16}), .w = filters});
    const auto largest = p.add("largest", reduce{.x = power, .kind = reduction::max});
    return std::move(p).build({product, power.transposed(), filtered, largest}, options);
  }
};

TEST_P(captured_programs, equal_their_steps) {
  auto generator = make_generator();
  std::size_t captured = 0;
  for (int round = 0; round < (under_compute_sanitizer() ? 3 : 25); ++round) {
    const random_program random(*this, generator, 1 + generator() % 12, captured_early);
    const auto known = prepared_for(random.get(), random.inputs());
    captured += known.captured ? 1U : 0U;
    if (has_graphs()) {
      EXPECT_TRUE(known.captured) << known.not_captured << "\n" << random.get().text();
    } else {
      EXPECT_EQ(known.not_captured, "the device has no graphs");
    }
    for (int again = 0; again < 6; ++again) {
      std::vector<tensor> inputs;
      for (const auto& input : random.inputs()) inputs.push_back(alone(strided_copy{.x = input}));
      std::vector<operand> outputs;
      if (again > 3) outputs = random_outputs(*this, generator, random.expected(), inputs);
      std::vector<run_input> run_inputs(inputs.begin(), inputs.end());
      if (generator() % 4 == 0) run_inputs[0] = get(inputs[0]);
      const auto results = results_of({random.get(), run_inputs, outputs});
      for (std::size_t i = 0; i < results.size(); ++i) {
        ASSERT_EQ(bits(results[i]), bits(random.expected()[i])) << random.get().text();
      }
    }
  }
  EXPECT_EQ(captured != 0, has_graphs());
}

TEST_P(captured_programs, are_in_flight_with_memory_of_their_own) {
  const auto never = of_many_libraries(not_captured);
  const auto early = of_many_libraries(captured_early);
  std::vector<tensor> inputs;
  std::vector<pending<tensors>> captured;
  for (int i = 0; i < 40; ++i) inputs.push_back(numbers({24, 64}));
  EXPECT_EQ(prepared_for(early, {inputs[0]}).captured, has_graphs());
  for (const auto& input : inputs)
    captured.push_back(submit(test_executor(), sluice::run{early, {input}}));
  std::vector<tensors> results;
  for (auto& one : captured) results.push_back(wait(one));
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    const auto expected = results_of({never, {inputs[i]}});
    for (std::size_t o = 0; o < expected.size(); ++o) {
      ASSERT_EQ(bits(results[i][o]), bits(expected[o])) << "run " << i << ", output " << o;
    }
  }
}

// Whichever form turns out to be faster, no run differs, and no plan is made again.
TEST_P(captured_programs, are_made_after_a_few_runs) {
  const auto never = of_many_libraries(not_captured);
  const auto program = of_many_libraries(captured_later);
  const auto input = numbers({24, 64});
  const auto expected = results_of({never, {input}});
  const auto check = [&] {
    const auto results = results_of({program, {input}});
    for (std::size_t o = 0; o < expected.size(); ++o) {
      ASSERT_EQ(bits(results[o]), bits(expected[o]));
    }
  };
  check();
  const auto plans = test_executor().status().plans.made;
  EXPECT_EQ(test_executor().status().plans.captured, 0U);
  bool was_captured = false;
  await([&] {
    check();
    const auto known = prepared_for(program, {input});
    was_captured = was_captured || known.captured;
    return known.captured || !known.not_captured.empty();
  });
  EXPECT_EQ(was_captured, has_graphs());
  const auto attempts = test_executor().status().plans.capture_attempts;
  EXPECT_EQ(attempts != 0, has_graphs());
  for (int i = 0; i < (has_graphs() && !under_compute_sanitizer() ? 1000 : 20); ++i) check();
  EXPECT_EQ(test_executor().status().plans.capture_attempts, attempts);
  const auto known = prepared_for(program, {input});
  EXPECT_EQ(test_executor().status().plans.captured, known.captured ? 1U : 0U);
  EXPECT_EQ(test_executor().status().plans.not_captured, known.captured ? 0U : 1U);
  EXPECT_NE(known.captured, !known.not_captured.empty());
  EXPECT_EQ(test_executor().status().plans.made, plans);
}

TEST_P(captured_programs, read_their_constants_at_each_run) {
  program_builder p;
  const auto x = p.input("x");
  auto factors = numbers({4, 4});
  const auto offsets = numbers({4, 4});
  const auto product = p.add("product", gemm{.a = x, .b = factors});
  const auto fixed = p.constant("offsets", get(offsets));
  const program program = std::move(p).build({p.add("sum", add(product, fixed))}, captured_early);
  for (int i = 0; i < 10; ++i) {
    const auto input = numbers({4, 4});
    (void)alone(strided_copy{.x = numbers({4, 4}), .y = factors});
    const auto result = results_of({program, {input}})[0];
    const auto expected = alone(add(alone(gemm{.a = input, .b = factors}), offsets));
    ASSERT_EQ(bits(result), bits(expected));
  }
  const auto input = numbers({4, 4});
  runtime().deallocate(factors.block());
  EXPECT_TRUE(throws(errc::stale_ref, "product.b", [&] { (void)results_of({program, {input}}); }));
}

// Libraries choose kernels by the alignment of addresses.
TEST_P(captured_programs, have_the_bits_of_their_steps_whatever_the_alignment) {
  program_builder p;
  const auto a = p.input("a");
  const auto b = p.input("b");
  const auto product = p.add("product", gemm{.a = a, .b = b});
  const program program = std::move(p).build({p.add("sum", add(product, product))}, captured_early);
  const auto memory = numbers({2 * 96 * 96 + 100});
  for (const std::int64_t shift : {0, 1, 2, 4, 8, 16, 32, 64, 3}) {
    const auto one = memory.slice(0, shift, shift + 96 * 96).reshape({96, 96});
    const auto other = memory.slice(0, shift + 96 * 96, shift + 2 * 96 * 96).reshape({96, 96});
    EXPECT_EQ(prepared_for(program, {one, other}).captured, has_graphs());
    const auto expected = alone(gemm{.a = one, .b = other});
    EXPECT_EQ(bits(results_of({program, {one, other}})[0]), bits(alone(add(expected, expected))))
        << "shift " << shift;
  }
}

// CUDA does not exchange addresses of pools and of other allocations in a graph.
TEST_P(captured_programs, run_step_by_step_with_memory_of_another_kind) {
  device_runtime other(service()->runtime().device().id().kind == device_kind::cuda
                           ? open_device(GetParam())
                           : opened_device(),
                       runtime_options{.resource = make_direct_resource({.tracked = true})});
  const auto program = of_many_libraries(captured_early);
  const auto never = of_many_libraries(not_captured);
  const auto stream = other.create_stream();
  std::mt19937_64 generator = make_generator();
  const auto values = random_values<float>(generator, 24 * 64);
  auto* const exported = export_dlpack(other, tensor(test::upload(other, stream, values)));
  const tensor imported = import_dlpack(runtime(), exported, {.ready = true}).reshape({24, 64});
  const auto copy = alone(strided_copy{.x = imported});
  const auto expected = results_of({never, {copy}});
  for (int i = 0; i < 40; ++i) {
    const auto results = results_of({program, {i % 2 == 0 ? imported : copy}});
    for (std::size_t o = 0; o < expected.size(); ++o) {
      ASSERT_EQ(bits(results[o]), bits(expected[o])) << "run " << i;
    }
  }
}

TEST_P(captured_programs, say_why_they_are_not) {
  if (!has_graphs()) GTEST_SKIP() << "the host device has no graphs";
  const auto matrix = numbers({8, 8});
  const auto steps = [](program_builder& p, const program_value& x,
                        const program_options& options) {
    const auto product = p.add("product", gemm{.a = x, .b = x});
    return std::move(p).build({p.add("sum", add(product, product))}, options);
  };
  const auto reason = [&](const std::vector<tensor>& inputs, const program_options& options,
                          const std::vector<std::optional<tensor_spec>>& outputs = {}) {
    program_builder p;
    const auto known = prepared_for(steps(p, p.input("x"), options), inputs, outputs);
    EXPECT_NE(known.captured, !known.not_captured.empty());
    return known.not_captured;
  };
  EXPECT_EQ(reason({matrix}, captured_early), "");
  EXPECT_EQ(reason({matrix.transposed()}, captured_early), "");
  EXPECT_EQ(reason({matrix}, not_captured), "the program is not to be captured");
  EXPECT_EQ(reason({numbers({8, 9}).slice(1, 0, 8)}, captured_early),
            "x has gaps or repeats elements");
  EXPECT_EQ(reason({small(1).broadcast_to({8, 8})}, captured_early),
            "x has gaps or repeats elements");
  auto with_gaps = tensor_spec::row_major(element_type::f32, {8, 8});
  with_gaps.strides = {16, 1};
  EXPECT_EQ(reason({matrix}, captured_early, {with_gaps}),
            "outputs[0] has gaps or repeats elements");

  program_builder p;
  const auto x = p.input("x");
  const program scaled = std::move(p).build(
      {p.add("scaled", affine{.x = x, .factor = p.scalar("factor")})}, captured_early);
  const auto known =
      prepare_of({.what = scaled, .inputs = {tensor_spec::of(matrix)}, .scalars = {1}});
  EXPECT_EQ(known.not_captured, "the runs give numbers");
}

TEST_P(captured_programs, that_are_automatic_gain_from_it) {
  if (!has_graphs()) GTEST_SKIP() << "the host device has no graphs";
  const auto reason_of = [&](const program& program, const tensor& input) {
    std::string reason;
    await([&] {
      (void)results_of({program, {input}});
      reason = prepared_for(program, {input}).not_captured;
      return !reason.empty();
    });
    return reason;
  };
  program_builder few;
  const auto x = few.input("x");
  const auto doubled = few.add("doubled", add(x, x));
  EXPECT_EQ(reason_of(std::move(few).build({doubled}, captured_later), numbers({8, 8})),
            "the program has too few steps");
  const auto chain = [](std::int64_t rows, std::int64_t intermediate) {
    program_builder p;
    auto sum = p.add("wide", strided_copy{.x = p.input("x").broadcast_to({intermediate, rows})});
    for (int i = 0; i < 3; ++i) sum = p.add("sum", add(sum, sum));
    const auto last = p.add("last", reduce{.x = sum, .axes = extents{0}});
    return std::move(p).build({last}, captured_later);
  };
  EXPECT_EQ(reason_of(chain(1 << 10, 1 << 15), numbers({1 << 10})),
            "the intermediate values are too large");
}

// The planner captures while other threads allocate, free, transfer and query.
TEST_P(captured_programs, are_made_beside_other_work) {
  auto generator = make_generator();
  std::atomic<bool> ended{false};
  std::atomic<int> wrong{0};
  std::vector<std::thread> others;
  for (std::uint64_t t = 0; t < 2; ++t) {
    others.emplace_back([&, t] {
      std::mt19937_64 thread_generator(t);
      const auto mine = runtime().create_stream();
      while (!ended) {
        const auto values = random_values<float>(thread_generator, 1 + thread_generator() % 5000);
        const auto block = test::upload(runtime(), mine, values);
        if (test::download(block, mine) != values) ++wrong;
        runtime().reap_pending();
      }
    });
  }
  // The end of an executor destroys handles of libraries.
  others.emplace_back([&] {
    while (!ended) {
      executor mine(service());
      mine.on_wake([] {});
      mine.prepare(descriptor_of(operation_type<gemm>{}));
      mine.prepare(descriptor_of(operation_type<conv2d>{}));
    }
  });
  for (int round = 0; round < (under_compute_sanitizer() ? 2 : 12); ++round) {
    const random_program random(*this, generator, 3 + generator() % 8, captured_early);
    for (int again = 0; again < 3; ++again) {
      auto answer = submit(
          test_executor(),
          sluice::run{random.get(),
                      std::vector<run_input>(random.inputs().begin(), random.inputs().end())});
      // The lane itself allocates, transfers, launches and frees meanwhile.
      do {
        const auto x = numbers({100});
        ASSERT_EQ(bits(alone(multiply(x, x))), bits(alone(multiply(x, x))));
        test_executor().work();
      } while (!answer.answered());
      const auto results = wait(answer);
      for (std::size_t i = 0; i < results.size(); ++i) {
        ASSERT_EQ(bits(results[i]), bits(random.expected()[i])) << random.get().text();
      }
    }
    EXPECT_EQ(test_executor().status().plans.captured != 0, has_graphs());
  }
  ended = true;
  for (auto& other : others) other.join();
  EXPECT_EQ(wrong, 0);
}

// The cache keeps one executable. The others are destroyed once their launches have completed.
TEST_P(captured_programs, are_evicted_while_they_run) {
  const auto input = numbers({24, 64});
  const auto expected = results_of({of_many_libraries(not_captured), {input}});
  const std::vector<program> all_programs{of_many_libraries(captured_early),
                                          of_many_libraries(captured_early),
                                          of_many_libraries(captured_early)};
  const auto few = make_executor({.max_plan_bytes = 1});
  for (int round = 0; round < (under_compute_sanitizer() ? 1 : 6); ++round) {
    std::vector<pending<tensors>> answers;
    for (const auto& one : all_programs) {
      for (int i = 0; i < 4; ++i) answers.push_back(submit(*few, sluice::run{one, {input}}));
    }
    for (auto& answer : answers) {
      const auto results = wait(*few, answer);
      for (std::size_t o = 0; o < expected.size(); ++o) {
        ASSERT_EQ(bits(results[o]), bits(expected[o]));
      }
    }
    EXPECT_LE(few->status().plans.captured, 1U);
  }
}

// Captured programs of a lane share their scratch memory, which is returned with the last one.
TEST_P(captured_programs, return_their_memory) {
  const auto input = numbers({24, 64});
  (void)results_of({of_many_libraries(not_captured), {input}});
  const auto before = runtime().statistics().bytes_outstanding;
  {
    const auto fresh = make_executor();
    std::vector<program> kept;
    for (int i = 0; i < 5; ++i) {
      kept.push_back(of_many_libraries(captured_early));
      (void)run(*fresh, sluice::run{kept.back(), {input}});
    }
    EXPECT_EQ(fresh->status().plans.captured, has_graphs() ? 5U : 0U);
  }
  await([&] {
    runtime().reap_pending();
    return runtime().statistics().bytes_outstanding <= before;
  });
}

// The workspace of the lane grows, and shrinks after 256 launches that need less.
TEST_P(captured_programs, do_not_use_the_workspace_of_the_lane) {
  const auto program = of_many_libraries(captured_early);
  const auto input = numbers({24, 64});
  const auto expected = results_of({of_many_libraries(not_captured), {input}});
  const auto check = [&] {
    const auto results = results_of({program, {input}});
    for (std::size_t o = 0; o < expected.size(); ++o) {
      ASSERT_EQ(bits(results[o]), bits(expected[o]));
    }
  };
  const auto workspaces = [&] {
    runtime().reap_pending();
    return runtime().statistics().bytes_outstanding;
  };
  const auto large = numbers({64, 10007});
  const auto small = numbers({1, 1009});
  const auto other = numbers({1, 2003});
  (void)alone(rfft{.x = small});
  (void)alone(rfft{.x = other});
  check();
  const auto before = workspaces();
  for (int round = 0; round < 2; ++round) {
    (void)alone(rfft{.x = large});
    check();
    const auto grown = workspaces();
    for (int i = 0; i < 260; ++i) (void)alone(rfft{.x = i % 2 == 0 ? small : other});
    check();
    if (!has_graphs()) continue;
    EXPECT_GT(grown, before) << "these transforms need no workspace";
    await([&] { return workspaces() < grown; });
  }
  check();
}

/// Counts the calls that put work on a stream, but for kernels and graphs.
class counting_device final : public forwarding_device {
 public:
  explicit counting_device(const std::shared_ptr<device>& real)
      : forwarding_device(real->id(), real) {}

  std::atomic<std::uint64_t> records{0};
  std::atomic<std::uint64_t> others{0};

  void record(native_event* e, std::uint64_t value, native_stream* s) override {
    ++records;
    forwarding_device::record(e, value, s);
  }
  void wait(native_stream* s, native_event* e, std::uint64_t value) override {
    ++others;
    forwarding_device::wait(s, e, value);
  }
  void copy(void* destination, const void* source, std::size_t bytes, copy_direction direction,
            native_stream* s) override {
    ++others;
    forwarding_device::copy(destination, source, bytes, direction, s);
  }
  void fill(void* destination, const void* value, std::size_t size, std::size_t count,
            native_stream* s) override {
    ++others;
    forwarding_device::fill(destination, value, size, count, s);
  }
};

class counted_captures : public captured_programs {
 protected:
  std::shared_ptr<device> opened_device() override {
    return counting_ = std::make_shared<counting_device>(open_device(GetParam()));
  }
  [[nodiscard]] counting_device& counting() { return *counting_; }

 private:
  std::shared_ptr<counting_device> counting_;
};

TEST_P(counted_captures, are_one_record_for_each_run) {
  if (!has_graphs()) GTEST_SKIP() << "the device has no graphs";
  constexpr std::uint64_t runs = 50;
  const auto program = of_many_libraries(captured_early);
  const auto input = numbers({24, 64});
  // Outputs that are given need no allocation, which would be ordered behind a free.
  const auto results = results_of({program, {input}});
  const std::vector<operand> outputs(results.begin(), results.end());
  (void)results_of({program, {input}, outputs});
  EXPECT_EQ(test_executor().status().plans.captured, 2U) << "without given outputs and with them";
  const auto records = counting().records.load();
  const auto others = counting().others.load();
  for (std::uint64_t i = 0; i < runs; ++i) (void)results_of({program, {input}, outputs});
  EXPECT_EQ(counting().records - records, runs);
  EXPECT_EQ(counting().others - others, 0U);
}

INSTANTIATE_TEST_SUITE_P(devices, counted_captures, every_device(), parameter_name);

TEST(capture_policy, is_one_of_its_values) {
  program_builder p;
  const auto x = p.input("x");
  const auto sum = p.add("sum", add(x, x));
  EXPECT_TRUE(throws(errc::invalid_argument, "capture", [&] {
    (void)std::move(p).build({sum}, {.capture = static_cast<capture_policy>(3)});
  }));
}

INSTANTIATE_TEST_SUITE_P(devices, captured_programs, every_device(), parameter_name);

}  // namespace
}  // namespace sluice::test
