// SPDX-License-Identifier: Apache-2.0
// The executables for several runs as one, and how they are made, on a host device that presents
// itself as a GPU: the path of a batch on machines without GPUs.
#include "operations/program/executable.hpp"
#include "operations/program/program_graph.hpp"
#include "tests/operations/executing.hpp"
#include "tests/operations/program/host_member_copies.hpp"
#include "tests/support/pretended_gpu.hpp"
#include "tests/support/random_values.hpp"
#include "tests/support/seed.hpp"

#include <sluice/operations.hpp>
#include <sluice/operations/operation.hpp>
#include <sluice/runtime/host_device.hpp>
#include <sluice/runtime/launch_recorder.hpp>

#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <memory>
#include <optional>
#include <random>
#include <thread>
#include <tuple>
#include <utility>
#include <vector>

namespace sluice::test {
namespace {

using operations::executable;

/// What the planner does for `shifted`.
struct plans_of_shifts {
  std::atomic<int> made{0};
  std::atomic<std::int64_t> refused_rows{0};  ///< of a plan that cannot be made
  std::atomic<std::size_t> device_bytes{0};   ///< of each plan
};
plans_of_shifts shift_plans;

class shift_plan final : public operation_plan {
 public:
  explicit shift_plan(std::size_t bytes) noexcept : bytes_(bytes) {}
  std::size_t device_bytes() const noexcept override { return bytes_; }

 private:
  std::size_t bytes_;
};

/// y = 2 · x + by, on a GPU with a plan for each number of elements and each `by`.
struct shifted {
  operand x{};
  operand y{};
  std::int64_t by = 0;
  template <class = void>
  static constexpr auto members() {
    return std::make_tuple(input("x", &shifted::x), output("y", &shifted::y),
                           parameter("by", &shifted::by));
  }
};
struct shifted_call {
  struct plan_key {
    std::int64_t rows;
    std::int64_t count;
    std::int64_t by;
  } key;
};

const operation_descriptor& descriptor_of(operation_type<shifted>) {
  static const typed_operation_descriptor<shifted, shifted_call> descriptor(
      {.name = "shifted",
       .infer = [](const shifted& op, inference& inference) -> shifted_call {
         const auto& x = inference.require(op.x);
         (void)inference.result(op.y, x.type, x.shape);
         inference.make_contiguous(op.x);
         return {{x.shape[0], static_cast<std::int64_t>(x.size()), op.by}};
       },
       .cuda = {.library = "own",
                .make_plan = [](lane_libraries&,
                                const shifted_call& call) -> std::shared_ptr<const operation_plan> {
                  ++shift_plans.made;
                  if (call.key.rows == shift_plans.refused_rows) {
                    throw error(errc::library_failure, "too many rows");
                  }
                  return std::make_shared<shift_plan>(shift_plans.device_bytes);
                }},
       .enqueue =
           [](lane_libraries& libraries, const shifted_call& call,
              const launch_of<shifted>& launch) {
             libraries.runtime().device().notify(
                 libraries.stream().native(), [call, x = launch.get<const float>(&shifted::x),
                                               y = launch.get<float>(&shifted::y)] {
                   for (std::int64_t i = 0; i < call.key.count; ++i) {
                     y[i] = 2 * x[i] + static_cast<float>(call.key.by);
                   }
                 });
           }});
  return descriptor;
}

class stacked_executables_test : public executor_test {
 protected:
  static constexpr std::int64_t elements = 13;
  static constexpr int steps = 3;
  static constexpr std::size_t largest = 16;
  static constexpr std::size_t budget = std::size_t{1} << 30U;
  static constexpr plan_limits no_limits{std::numeric_limits<std::size_t>::max(),
                                         std::numeric_limits<std::size_t>::max()};

  void SetUp() override {
    shift_plans.made = 0;
    shift_plans.refused_rows = 0;
    shift_plans.device_bytes = 0;
    executor_test::SetUp();
    copies_.emplace();
    lane_.emplace(runtime(), stream());
    what_.emplace(several_steps());
  }
  void TearDown() override {
    tested_.reset();
    what_.reset();
    lane_.reset();
    copies_.reset();
    executor_test::TearDown();
  }
  std::shared_ptr<device> opened_device() override {
    return std::make_shared<pretended_gpu>(0, open_host_device());
  }

  runtime_options options_of_runtime() override {
    return {.resource = make_budget_resource(make_async_resource(),
                                             std::make_shared<memory_budget>(budget))};
  }

  static program several_steps() {
    program_builder p;
    auto last = p.input("x", per_request);
    for (int i = 0; i < steps; ++i) last = p.add("shifted", shifted{.x = last, .by = i});
    return std::move(p).build(
        {last}, {.capture = capture_policy::never, .max_in_batch = largest, .fuse = false});
  }
  void make_executable() {
    const auto spec = tensor_spec::row_major(element_type::f32, {1, elements});
    const auto inferred =
        what_->graph()->infer(std::array{spec}, {}, std::vector<operations::given_output>(1));
    ASSERT_TRUE(inferred.shared->stacks);
    tested_ = std::make_unique<executable>(what_->graph(), inferred.shared, *lane_);
  }
  const executable& tested() { return *tested_; }
  operations::batch_growth& growth() { return *tested_->growth(); }
  lane_libraries& lane() { return *lane_; }
  void drop_program() { what_.reset(); }
  /// Makes the next size, unless it is interrupted.
  void make_next(
      const std::function<bool()>& is_interrupted = [] { return false; },
      const plan_limits& limits = no_limits) {
    growth().make(growth().next_size(), *lane_, limits, is_interrupted);
  }
  /// Runs `count` runs as one batch, or alone, and compares the results.
  void expect_results(std::size_t count, bool alone = false) {
    std::vector<gpu_ref<float>> blocks;
    std::vector<std::vector<float>> expected;
    std::vector<void*> externals;
    auto recorder = launch_recorder::strict(stream());
    for (std::size_t i = 0; i < count; ++i) {
      auto values = random_values<float>(generator_, std::size_t{elements});
      const auto& x = blocks.emplace_back(upload(runtime(), stream(), values));
      for (auto& v : values) {
        for (int step = 0; step < steps; ++step) v = 2 * v + static_cast<float>(step);
      }
      expected.push_back(std::move(values));
      recorder.read(x);
      externals.push_back(x.data());
      const auto& y = blocks.emplace_back(runtime().allocate<float>(elements, stream(), "y"));
      recorder.write(y);
      externals.push_back(y.data());
    }
    const auto bytes = tested().batch_workspace_bytes();
    auto scratch = runtime().allocate_bytes(bytes + 1, stream(), "scratch");
    recorder.use(scratch, access_kind::write, false).preflight();
    if (alone) {
      tested().enqueue(*lane_, externals, scratch.address(), nullptr);
    } else {
      tested().enqueue_batch(*lane_, {externals, {}}, scratch.address());
    }
    recorder.commit();
    for (std::size_t i = 0; i < count; ++i) {
      ASSERT_EQ(download(blocks[2 * i + 1], stream()), expected[i]) << i << " of " << count;
    }
  }

 private:
  std::optional<host_member_copies> copies_;
  std::optional<lane_libraries> lane_;
  std::optional<program> what_;
  std::unique_ptr<executable> tested_;
  std::mt19937_64 generator_ = make_generator();
};

TEST_P(stacked_executables_test, compute_batches_with_the_sizes_that_there_are) {
  make_executable();
  expect_results(1, true);
  const auto commands_alone = tested().commands();
  EXPECT_EQ(tested().batch_commands(5), 5 * commands_alone);
  for (std::size_t size = 2; size <= largest; size *= 2) {
    ASSERT_EQ(growth().next_size(), size);
    make_next();
    growth().adopt();
    ASSERT_EQ(growth().size(), size);
    for (std::size_t count = 1; count <= largest; ++count) expect_results(count);
    // One copy of the inputs, the steps and one copy of the results. Five runs need more than
    // eight.
    EXPECT_EQ(tested().batch_commands(2), commands_alone + 2);
    EXPECT_LE(tested().batch_commands(size), 3 * (commands_alone + 2));
  }
  EXPECT_EQ(growth().next_size(), 0U);
  EXPECT_EQ(shift_plans.made, steps * 5);
}

// The owner has asked for the workspace and the commands before it enqueues.
TEST_P(stacked_executables_test, are_used_once_the_owner_has_adopted_them) {
  make_executable();
  const auto bytes = tested().bytes();
  const auto workspace = tested().batch_workspace_bytes();
  const auto commands = tested().batch_commands(2);
  make_next();
  EXPECT_EQ(growth().size(), 1U);
  EXPECT_EQ(tested().bytes(), bytes);
  EXPECT_EQ(tested().batch_workspace_bytes(), workspace);
  EXPECT_EQ(tested().batch_commands(2), commands);
  expect_results(2);
  make_next();  // it is there
  EXPECT_EQ(shift_plans.made, 2 * steps);
  growth().adopt();
  EXPECT_EQ(growth().size(), 2U);
  EXPECT_GT(tested().bytes(), bytes);
  EXPECT_GT(tested().batch_workspace_bytes(), workspace);
  EXPECT_NE(tested().batch_commands(2), commands);
  growth().adopt();
  EXPECT_EQ(growth().size(), 2U);
  expect_results(2);
}

TEST_P(stacked_executables_test, keep_what_an_interrupted_attempt_has_made) {
  make_executable();
  for (int attempt = 1; attempt <= steps; ++attempt) {
    make_next([] { return true; });
    growth().adopt();
    EXPECT_EQ(shift_plans.made, steps + attempt);
    EXPECT_EQ(growth().size(), 1U);
    EXPECT_EQ(growth().next_size(), 2U);
  }
  make_next([] { return true; });
  growth().adopt();
  EXPECT_EQ(growth().size(), 2U) << "every plan is there";
  EXPECT_EQ(shift_plans.made, 2 * steps);
  expect_results(3);
}

TEST_P(stacked_executables_test, end_with_a_size_that_is_refused) {
  make_executable();
  shift_plans.refused_rows = 4;
  make_next();
  growth().adopt();
  make_next();
  growth().adopt();
  EXPECT_EQ(growth().size(), 2U);
  EXPECT_EQ(growth().next_size(), 0U);
  const auto made = shift_plans.made.load();
  growth().make(4, lane(), no_limits, [] { return false; });
  EXPECT_EQ(shift_plans.made, made) << "it is not tried again";
  for (std::size_t count = 1; count <= largest; ++count) expect_results(count);
}

TEST_P(stacked_executables_test, stay_within_the_limits_of_a_plan) {
  shift_plans.device_bytes = 1000;
  make_executable();
  EXPECT_EQ(tested().device_bytes(), 1000U * steps);
  const plan_limits limits{no_limits.host_bytes, 2 * 1000 * steps + 100'000};
  make_next([] { return false; }, limits);
  growth().adopt();
  EXPECT_EQ(tested().device_bytes(), 2 * 1000U * steps);
  const plan_limits exceeded{no_limits.host_bytes, 2 * 1000 * steps + 100};
  make_next([] { return false; }, exceeded);
  growth().adopt();
  EXPECT_EQ(growth().size(), 2U);
  EXPECT_EQ(growth().next_size(), 0U);
  EXPECT_EQ(tested().device_bytes(), 2 * 1000U * steps);
}

TEST_P(stacked_executables_test, end_with_the_memory_budget) {
  make_executable();
  shift_plans.device_bytes = budget / 2;
  make_next();
  EXPECT_EQ(growth().next_size(), 0U);
  EXPECT_FALSE(growth().may_take_batches());
  expect_results(1, true);
}

TEST_P(stacked_executables_test, end_with_the_program) {
  make_executable();
  drop_program();
  make_next();
  EXPECT_EQ(growth().next_size(), 0U);
  EXPECT_EQ(shift_plans.made, steps);
}

TEST_P(stacked_executables_test, end_with_the_device) {
  make_executable();
  runtime().device().lose(error(errc::library_failure, "gone"));
  make_next();
  EXPECT_EQ(growth().next_size(), 0U);
  EXPECT_EQ(shift_plans.made, steps);
}

TEST_P(stacked_executables_test, are_made_while_the_owner_launches) {
  make_executable();
  std::atomic<std::size_t> wanted{2};
  std::thread planner([&] {
    for (std::size_t size = 2; size <= largest; size *= 2) {
      while (wanted.load() != size) std::this_thread::yield();
      growth().make(size, lane(), no_limits, [] { return false; });
    }
  });
  std::size_t count = 0;
  while (growth().next_size() != 0) {
    growth().adopt();
    if (const auto next = growth().next_size(); next != 0) wanted = next;
    expect_results(1 + count++ % largest);
    (void)tested().bytes();
    (void)tested().wants_improvement();
  }
  planner.join();
  expect_results(largest);
}

INSTANTIATE_TEST_SUITE_P(devices, stacked_executables_test, ::testing::Values("host"),
                         parameter_name);

}  // namespace
}  // namespace sluice::test
