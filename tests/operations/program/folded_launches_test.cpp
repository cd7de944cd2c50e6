// SPDX-License-Identifier: Apache-2.0
// How the planner computes steps of constants: on a host device, and on one that presents itself as
// a GPU, which shows the order of the work on machines without GPUs.
#include "operations/capture_scope.hpp"
#include "operations/program/executable.hpp"
#include "operations/program/program_graph.hpp"
#include "runtime/seam.hpp"
#include "tests/operations/executing.hpp"
#include "tests/operations/program/traced_sum.hpp"
#include "tests/support/expect_error.hpp"
#include "tests/support/pretended_gpu.hpp"
#include "tests/support/random_values.hpp"
#include "tests/support/seed.hpp"

#include <sluice/envelope/kernel_envelope.hpp>
#include <sluice/operations.hpp>
#include <sluice/runtime/host_device.hpp>
#include <sluice/runtime/launch_recorder.hpp>

#include <gtest/gtest.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <random>
#include <string>
#include <thread>
#include <utility>
#include <vector>

namespace sluice::test {
namespace {

using operations::executable;
using operations::program_inference;

/// A host device that presents itself as a GPU and counts the scopes in which it is current.
class entered_gpu final : public pretended_gpu {
 public:
  using pretended_gpu::pretended_gpu;
  [[nodiscard]] void* enter() noexcept override {
    ++depth_;
    return pretended_gpu::enter();
  }
  void leave(void* previous) noexcept override {
    --depth_;
    pretended_gpu::leave(previous);
  }
  /// Whether it is current for this thread.
  [[nodiscard]] static bool is_entered() noexcept { return depth_ != 0; }

 private:
  static inline thread_local int depth_ = 0;
};

/// "host:0" stands for the host device that presents itself as a GPU.
class folded_launches : public executor_test {
 protected:
  static constexpr std::int64_t elements = 37;

  void SetUp() override {
    sum_trace.reset();
    executor_test::SetUp();
    lane_.emplace(runtime(), stream());
  }
  void TearDown() override {
    lane_.reset();
    executor_test::TearDown();
    sum_trace.reset();
  }
  std::shared_ptr<device> opened_device() override {
    auto host = open_host_device();
    if (!pretends()) return host;
    return std::make_shared<entered_gpu>(0, std::move(host));
  }
  [[nodiscard]] static bool pretends() { return GetParam() == "host:0"; }
  lane_libraries& lane() { return *lane_; }
  [[nodiscard]] std::size_t outstanding() {
    runtime().reap_pending();
    return runtime().statistics().bytes_outstanding;
  }

  std::vector<float> numbers() { return random_values<float>(generator_, std::size_t{elements}); }
  /// x + 2 · c
  template <sum_kind Kind = sum_kind::kernel>
  static program sum_with_twice(const std::vector<float>& c) {
    program_builder p;
    const auto x = p.input("x");
    const auto constant = p.constant("c", host_tensor(c, {elements}));
    const auto twice = p.add("twice", traced_sum<Kind>{.a = constant, .b = constant});
    return std::move(p).build({p.add("sum", traced_sum<>{.a = x, .b = twice})},
                              {.capture = capture_policy::never, .fuse = false});
  }
  static std::shared_ptr<const program_inference> inferred(const program& what) {
    const auto spec = tensor_spec::row_major(element_type::f32, {elements});
    return what.graph()
        ->infer(std::array{spec}, {}, std::vector<operations::given_output>(1))
        .shared;
  }
  executable executable_of(const program& what, lane_libraries& libraries) {
    return {*what.graph(), *inferred(what), libraries};
  }
  executable executable_of(const program& what) { return executable_of(what, lane()); }
  /// Runs a program of one input of `elements` elements and at most one constant on the stream of a
  /// lane.
  std::vector<float> run_of(const executable& runs, lane_libraries& libraries,
                            const std::vector<float>& values) {
    const auto x = upload(runtime(), libraries.stream(), values);
    const auto y = runtime().allocate<float>(values.size(), libraries.stream(), "y");
    auto scratch =
        runtime().allocate_bytes(runs.scratch_bytes() + 1, libraries.stream(), "scratch");
    auto recorder = launch_recorder::strict(libraries.stream());
    recorder.read(x).write(y).use(scratch, access_kind::write, false);
    recorder.preflight();
    const std::array<void*, 3> externals{x.data(), nullptr, y.data()};
    runs.enqueue_steps(libraries, externals, scratch.address(), nullptr, nullptr);
    recorder.commit();
    return download(y, libraries.stream());
  }
  static std::vector<float> sum(const std::vector<float>& x, const std::vector<float>& c) {
    std::vector<float> y;
    for (std::size_t i = 0; i < x.size(); ++i) y.push_back(x[i] + (c[i] + c[i]));
    return y;
  }
  /// Expects that each run of `what` computes both steps.
  void expect_unfolded(const program& what, const std::vector<float>& c) {
    const auto runs = executable_of(what);
    EXPECT_EQ(runs.step_commands(), 2U);
    sum_trace.reset();
    for (int i = 0; i < 2; ++i) {
      const auto x = numbers();
      EXPECT_EQ(run_of(runs, lane(), x), sum(x, c));
    }
    EXPECT_EQ(sum_trace.computed, 4);
  }

 private:
  std::optional<lane_libraries> lane_;
  std::mt19937_64 generator_ = make_generator();
};

TEST_P(folded_launches, are_made_once_for_several_lanes) {
  const auto c = numbers();
  const auto what = sum_with_twice(c);
  const auto first = executable_of(what);
  EXPECT_EQ(first.step_commands(), 1U);
  EXPECT_EQ(sum_trace.computed, 1);
  const auto other_stream = runtime().create_stream();
  lane_libraries other_lane(runtime(), other_stream.ref());
  const auto second = executable_of(what, other_lane);
  EXPECT_EQ(second.step_commands(), 1U);
  EXPECT_EQ(sum_trace.computed, 1);
  for (int i = 0; i < 3; ++i) {
    const auto x = numbers();
    EXPECT_EQ(run_of(first, lane(), x), sum(x, c));
    EXPECT_EQ(run_of(second, other_lane, x), sum(x, c));
  }
  EXPECT_EQ(sum_trace.computed, 1 + 6);
}

TEST_P(folded_launches, have_library_objects_of_the_planner_before_memory_is_taken) {
  if (!pretends()) GTEST_SKIP() << "sums have library objects on a GPU";
  const auto before = outstanding();
  std::vector<std::size_t> bytes;
  std::vector<std::uint64_t> launches;
  sum_trace.on_prepare = [&](device_runtime& r) {
    bytes.push_back(r.statistics().bytes_outstanding);
    launches.push_back(r.statistics().launches);
  };
  const auto launches_before = runtime().statistics().launches;
  const auto what = sum_with_twice(numbers());
  const auto runs = executable_of(what);
  // Those of the lane are for its runs. The others are the planner's.
  EXPECT_EQ(bytes, (std::vector<std::size_t>{before, before}));
  EXPECT_EQ(launches, (std::vector<std::uint64_t>{launches_before, launches_before}));
  (void)executable_of(sum_with_twice(numbers()));
  EXPECT_EQ(sum_trace.prepared, 2) << "the lane keeps them";
}

// The exit of the process waits for such a call, and kernels need the current device.
TEST_P(folded_launches, are_calls_of_libraries_on_the_current_device) {
  if (!pretends()) GTEST_SKIP() << "launches on a host device are tasks";
  bool is_entered = false;
  bool is_call = false;
  sum_trace.on_enqueue = [&] {
    is_entered = entered_gpu::is_entered();
    std::thread([&] { is_call = detail::library_call::running_elsewhere(); }).join();
  };
  const auto runs = executable_of(sum_with_twice(numbers()));
  EXPECT_TRUE(is_entered);
  EXPECT_TRUE(is_call);
  EXPECT_FALSE(entered_gpu::is_entered());
  std::thread([&] { is_call = detail::library_call::running_elsewhere(); }).join();
  EXPECT_FALSE(is_call);
}

TEST_P(folded_launches, are_those_of_operations_that_the_planner_can_enqueue) {
  const auto commands_of = [&](const program& what) {
    return executable_of(what).step_commands();
  };
  EXPECT_EQ(commands_of(sum_with_twice<sum_kind::kernel>(numbers())), 1U);
  EXPECT_EQ(commands_of(sum_with_twice<sum_kind::without_object>(numbers())), 1U);
  EXPECT_EQ(commands_of(sum_with_twice<sum_kind::uncaptured>(numbers())), pretends() ? 2U : 1U);
  EXPECT_EQ(commands_of(sum_with_twice<sum_kind::with_handle>(numbers())), pretends() ? 2U : 1U);
  EXPECT_EQ(commands_of(sum_with_twice<sum_kind::with_errors>(numbers())), 2U);
}

TEST_P(folded_launches, that_cannot_be_enqueued_are_left_to_the_runs) {
  if (!pretends()) GTEST_SKIP() << "launches on a host device are tasks";
  const auto c = numbers();
  for (const bool nothing : {false, true}) {
    const auto before = outstanding();
    {
      sum_trace.on_enqueue = [&] {
        const error failure(errc::library_failure, "no launch");
        if (nothing) throw nothing_enqueued(failure);
        throw error(failure);
      };
      expect_unfolded(sum_with_twice(c), c);
    }
    while (outstanding() != before) std::this_thread::yield();
  }
}

TEST_P(folded_launches, whose_second_step_fails_are_left_to_the_runs) {
  const auto c = numbers();
  program_builder p;
  const auto x = p.input("x");
  const auto constant = p.constant("c", host_tensor(c, {elements}));
  const auto twice = p.add("twice", traced_sum<>{.a = constant, .b = constant});
  const auto three = p.add("three", traced_sum<>{.a = twice, .b = constant});
  const auto what = std::move(p).build({p.add("sum", traced_sum<>{.a = x, .b = three})},
                                       {.capture = capture_policy::never, .fuse = false});
  int calls = 0;
  const auto fail_second = [&] {
    if (++calls == 2) throw error(errc::out_of_memory, "no memory");
  };
  (pretends() ? sum_trace.on_enqueue : sum_trace.on_compute) = fail_second;
  const auto runs = executable_of(what);
  EXPECT_EQ(calls, 2);
  EXPECT_EQ(runs.step_commands(), 3U);
  const auto values = numbers();
  auto expected = values;
  for (std::size_t i = 0; i < expected.size(); ++i) expected[i] += c[i] + c[i] + c[i];
  EXPECT_EQ(run_of(runs, lane(), values), expected);
}

TEST_P(folded_launches, without_memory_for_library_objects_are_left_to_the_runs) {
  if (!pretends()) GTEST_SKIP() << "sums have library objects on a GPU";
  const auto c = numbers();
  int objects = 0;
  sum_trace.on_prepare = [&](device_runtime&) {
    if (++objects == 2) throw error(errc::out_of_memory, "no memory");  // the planner's
  };
  expect_unfolded(sum_with_twice(c), c);
}

TEST_P(folded_launches, on_a_lost_device_are_an_error) {
  const auto lose = [&] {
    runtime().device().lose(error(errc::library_failure, "gone"));
  };
  (pretends() ? sum_trace.on_enqueue : sum_trace.on_compute) = lose;
  const auto what = sum_with_twice(numbers());
  EXPECT_TRUE(throws(errc::device_lost, "", [&] { (void)executable_of(what); }));
  EXPECT_TRUE(throws(errc::device_lost, "", [&] { (void)executable_of(what); }));
}

// Other steps that the driver's queue does not hold are computed by each run.
TEST_P(folded_launches, on_a_gpu_are_few) {
  constexpr int steps = 200;
  const auto c = numbers();
  program_builder p;
  const auto x = p.input("x");
  const auto constant = p.constant("c", host_tensor(c, {elements}));
  auto value = constant;
  for (int i = 0; i < steps; ++i) value = p.add("sum", traced_sum<>{.a = value, .b = constant});
  const auto what = std::move(p).build({p.add("y", traced_sum<>{.a = x, .b = value})},
                                       {.capture = capture_policy::never, .fuse = false});
  const auto runs = executable_of(what);
  EXPECT_EQ(runs.step_commands(), pretends() ? steps - 128U + 1U : 1U);
  const auto values = numbers();
  auto expected = c;
  for (std::size_t i = 0; i < expected.size(); ++i) {
    for (int k = 0; k < steps; ++k) expected[i] += c[i];
    expected[i] = values[i] + expected[i];
  }
  EXPECT_EQ(run_of(runs, lane(), values), expected);
}

TEST_P(folded_launches, are_not_made_in_a_capture) {
  const auto c = numbers();
  const auto what = sum_with_twice(c);
  const auto commands_in_capture = [&] {
    const auto run = inferred(what);
    const operations::capture_scope scope(runtime().device());
    return executable(*what.graph(), *run, lane()).step_commands();
  };
  EXPECT_EQ(commands_in_capture(), 2U);
  EXPECT_EQ(sum_trace.computed, 0);
  const auto runs = executable_of(what);
  EXPECT_EQ(runs.step_commands(), 1U);
  EXPECT_EQ(commands_in_capture(), 1U);
  EXPECT_EQ(sum_trace.computed, 1);
}

TEST_P(folded_launches, count_as_shared_memory_of_executables) {
  const auto what = sum_with_twice(numbers());
  constexpr std::size_t bytes = 256;  // 37 elements, aligned
  const auto first = executable_of(what);
  EXPECT_EQ(first.shared_device_bytes(), 2 * bytes);
  const auto second = executable_of(what);
  EXPECT_EQ(first.shared_device_bytes(), bytes);
  EXPECT_EQ(second.shared_device_bytes(), bytes);
}

INSTANTIATE_TEST_SUITE_P(devices, folded_launches, ::testing::Values("host", "host:0"),
                         [](const ::testing::TestParamInfo<std::string>& parameter) {
                           return parameter.param == "host" ? "host" : "pretended_gpu";
                         });

}  // namespace
}  // namespace sluice::test
