// SPDX-License-Identifier: Apache-2.0
// Constants of programs of which steps want prepacked copies.
#include "tests/operations/program/prepacked_sum.hpp"
#include "tests/operations/program/programs.hpp"
#include "tests/support/gate.hpp"

#include <sluice/runtime/memory_adaptors.hpp>
#include <sluice/runtime/memory_budget.hpp>

#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

namespace sluice::test {
namespace {

class prepacked_constants : public programs {
 protected:
  void SetUp() override {
    programs::SetUp();
    if (IsSkipped()) return;
    if (runtime().device().id().kind != device_kind::host) {
      GTEST_SKIP() << "no operation packs a constant on a GPU";
    }
    prepacking_counts.reset();
  }
  static host_tensor counted(std::int64_t count, float first = 1) {
    std::vector<float> numbers(static_cast<std::size_t>(count));
    for (auto& number : numbers) number = first++;
    return {std::move(numbers), {count}};
  }
  static program sum_with(const host_tensor& w, prepacked_form form = prepacked_form::reversed) {
    program_builder p;
    const auto x = p.input("x");
    return std::move(p).build(
        {p.add("sum", prepacked_sum{.x = x, .w = p.constant("w", w), .form = form})});
  }
  /// The elements of x + w, computed here.
  std::vector<float> expected(const tensor& x, const host_tensor& w) {
    auto sums = values(x);
    const auto added = w.to_vector<float>();
    for (std::size_t i = 0; i < sums.size(); ++i) sums[i] += added[i % added.size()];
    return sums;
  }
  [[nodiscard]] std::size_t outstanding() { return runtime().statistics().bytes_outstanding; }
};

TEST_P(prepacked_constants, are_prepacked_once_for_all_runs) {
  const auto w = counted(1000);
  const auto program = sum_with(w);
  (void)prepare_of({program, {tensor_spec::of(numbers({1000}))}});
  (void)prepare_of({program, {tensor_spec::of(numbers({1000}))}});
  for (int i = 0; i < 3; ++i) {
    const auto x = numbers({1000});
    EXPECT_EQ(values(results_of({program, {x}})[0]), expected(x, w));
  }
  EXPECT_EQ(prepacking_counts.copies, 1);
  EXPECT_EQ(prepacking_counts.runs_with_copy, 3);
  EXPECT_EQ(prepacking_counts.runs_without_copy, 0);
}

TEST_P(prepacked_constants, are_shared_by_lanes_and_shapes) {
  const auto w = counted(64);
  const auto program = sum_with(w);
  const auto other = make_executor();
  for (const std::int64_t rows : {1, 2, 5}) {
    const auto x = numbers({rows, 64});
    EXPECT_EQ(values(results_of({program, {x}})[0]), expected(x, w));
    EXPECT_EQ(values(run(*other, sluice::run{program, {x}})[0]), expected(x, w));
  }
  EXPECT_EQ(prepacking_counts.copies, 1);
  EXPECT_EQ(prepacking_counts.runs_with_copy, 6);
}

TEST_P(prepacked_constants, have_a_copy_for_each_layout) {
  const auto w = counted(64);
  program_builder p;
  const auto x = p.input("x");
  const auto c = p.constant("w", w);
  const auto sum = [&](const program_value& y, prepacked_form form) {
    return p.add("sum", prepacked_sum{.x = y, .w = c, .form = form});
  };
  auto y = sum(x, prepacked_form::reversed);
  y = sum(y, prepacked_form::negated);
  y = sum(y, prepacked_form::none);
  y = sum(y, prepacked_form::reversed);
  const program program = std::move(p).build({y});
  const auto input = alone(fill{.shape = extents{64}});
  auto four_times = w.to_vector<float>();
  for (auto& number : four_times) number *= 4;
  EXPECT_EQ(values(results_of({program, {input}})[0]), four_times);
  EXPECT_EQ(prepacking_counts.copies, 2);
  EXPECT_EQ(prepacking_counts.runs_with_copy, 3);
  EXPECT_EQ(prepacking_counts.runs_without_copy, 1);
}

TEST_P(prepacked_constants, may_be_views_and_results_of_folded_steps) {
  program_builder p;
  const auto x = p.input("x");
  const auto c = p.constant("c", counted(200));
  const auto twice = p.add("twice", affine{.x = c, .factor = 2});
  const auto first = p.add("first", prepacked_sum{.x = x, .w = c.slice(0, 0, 50)});
  const auto second = p.add("second", prepacked_sum{.x = first, .w = c.slice(0, 50, 100)});
  const auto third = p.add("third", prepacked_sum{.x = second, .w = twice.slice(0, 10, 60)});
  const program program = std::move(p).build({third});
  const auto result = values(results_of({program, {alone(fill{.shape = extents{50}})}})[0]);
  for (std::size_t i = 0; i < 50; ++i) {
    const auto number = static_cast<float>(i);
    EXPECT_EQ(result[i], (number + 1) + (number + 51) + 2 * (number + 11));
  }
  EXPECT_EQ(prepacking_counts.copies, 3);
  EXPECT_EQ(prepacking_counts.runs_with_copy, 3);
}

// Others may write the tensor, an input differs from run to run, and the call of a varying step
// does, too.
TEST_P(prepacked_constants, are_neither_tensors_nor_inputs_nor_of_varying_steps) {
  const auto w = numbers({64});
  program_builder p;
  const auto x = p.input("x");
  const auto factor = p.scalar("factor");
  auto y = p.add("of_tensor", prepacked_sum{.x = x, .w = p.constant("w", w)});
  y = p.add("of_input", prepacked_sum{.x = y, .w = x});
  y = p.add("varying", prepacked_sum{.x = y, .w = p.constant("c", counted(64)), .factor = factor});
  const program program = std::move(p).build({y});
  const auto input = alone(fill{.shape = extents{64}});
  for (int i = 1; i < 3; ++i) {
    (void)alone(fill{.value = i, .y = w});
    const auto result = values(results_of({program, {input}, {}, {scalar(i)}})[0]);
    for (std::size_t k = 0; k < result.size(); ++k) {
      EXPECT_EQ(result[k],
                static_cast<float>(i) * (static_cast<float>(i) + static_cast<float>(k + 1)));
    }
  }
  EXPECT_EQ(prepacking_counts.copies, 0);
  EXPECT_EQ(prepacking_counts.runs_without_copy, 6);
}

TEST_P(prepacked_constants, count_in_the_memory_of_the_device_until_the_last_executable) {
  constexpr std::int64_t count = 1 << 18;
  constexpr std::size_t bytes = count * sizeof(float);
  const auto x = numbers({count});
  const auto before = outstanding();
  {
    const auto program = sum_with(counted(count));
    const auto first = make_executor();
    const auto second = make_executor();
    const auto y = run(*first, sluice::run{program, {x}});
    EXPECT_GE(outstanding(), before + 3 * bytes) << "the constant, its copy and the result";
    const auto with_one = outstanding();
    (void)run(*second, sluice::run{program, {x}, {y[0]}});
    EXPECT_LT(outstanding(), with_one + bytes) << "two executors have one copy";
  }
  while (outstanding() >= before + bytes) runtime().reap_pending();
}

TEST_P(prepacked_constants, outlive_their_executable_while_a_run_is_in_flight) {
  const auto w = counted(256);
  const auto x = numbers({256});
  auto program = std::make_unique<sluice::program>(sum_with(w));
  auto fresh = make_executor();
  (void)run(*fresh, sluice::run{*program, {x}});
  gate closed;
  closed.hold(fresh->lane().stream());
  auto answer = submit(*fresh, sluice::run{*program, {x}});
  program.reset();
  fresh->work();
  closed.open();
  EXPECT_EQ(values(wait(*fresh, answer)[0]), expected(x, w));
}

class prepacked_constants_without_memory : public prepacked_constants {
 protected:
  runtime_options options_of_runtime() override {
    runtime_options options;
    options.resource = make_failing_resource(make_pool_resource(make_async_resource()), faults_);
    return options;
  }
  std::shared_ptr<fault_countdown> faults_ = std::make_shared<fault_countdown>();
};

TEST_P(prepacked_constants_without_memory, are_used_as_they_are) {
  const auto w = counted(1 << 16);
  const auto x = numbers({1 << 16});
  const auto y = numbers({1 << 16});
  const auto program = sum_with(w);
  // The constants are first. The runtime tries twice.
  faults_->fail_nth(2, 2);
  (void)results_of({program, {x}, {y}});
  EXPECT_EQ(values(y), expected(x, w));
  EXPECT_EQ(prepacking_counts.copies, 0);
  EXPECT_EQ(prepacking_counts.runs_without_copy, 1);
  // Another executable tries again.
  const auto other = make_executor();
  (void)run(*other, sluice::run{program, {x}, {y}});
  EXPECT_EQ(prepacking_counts.copies, 1);
  EXPECT_EQ(prepacking_counts.runs_with_copy, 1);
}

/// A budget for an input, a constant, its copy, and the input and the result of a run.
class prepacked_constants_with_budget : public prepacked_constants {
 protected:
  static constexpr std::size_t bytes = std::size_t{1} << 20U;
  static constexpr std::int64_t count = bytes / sizeof(float);
  runtime_options options_of_runtime() override {
    runtime_options options;
    options.resource = make_budget_resource(make_async_resource(), budget_);
    return options;
  }
  std::shared_ptr<memory_budget> budget_ = std::make_shared<memory_budget>(5 * bytes);
};

TEST_P(prepacked_constants_with_budget, leave_the_memory_of_runs) {
  const auto other = runtime().allocate_bytes(1, stream(), "other");
  const auto x = numbers({count});
  const auto w = counted(count);
  const auto program = sum_with(w);
  const auto first = results_of({program, {x}});
  const auto second = results_of({program, {x}});
  EXPECT_EQ(values(first[0]), expected(x, w));
  EXPECT_EQ(values(second[0]), expected(x, w));
  EXPECT_EQ(prepacking_counts.copies, 0);
}

TEST_P(prepacked_constants_with_budget, take_no_more_memory_for_another_executable) {
  const auto x = numbers({count});
  const auto w = counted(count);
  const auto program = sum_with(w);
  const auto y = results_of({program, {x}});
  EXPECT_EQ(prepacking_counts.copies, 1);
  const auto other = make_executor();
  (void)run(*other, sluice::run{program, {x}, {y[0]}});
  EXPECT_EQ(values(y[0]), expected(x, w));
  EXPECT_EQ(prepacking_counts.copies, 1);
  EXPECT_EQ(prepacking_counts.runs_with_copy, 2);
}

INSTANTIATE_TEST_SUITE_P(devices, prepacked_constants, every_device(), parameter_name);
INSTANTIATE_TEST_SUITE_P(devices, prepacked_constants_without_memory, every_device(),
                         parameter_name);
INSTANTIATE_TEST_SUITE_P(devices, prepacked_constants_with_budget, every_device(), parameter_name);

}  // namespace
}  // namespace sluice::test
