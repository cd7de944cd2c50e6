// SPDX-License-Identifier: Apache-2.0
// Steps of constants on devices that have no memory for their results, that fail or that are lost.
#include "tests/operations/program/programs.hpp"
#include "tests/operations/program/traced_sum.hpp"
#include "tests/support/expect_error.hpp"
#include "tests/support/gate.hpp"

#include <sluice/runtime/host_device.hpp>
#include <sluice/runtime/memory_adaptors.hpp>
#include <sluice/runtime/memory_budget.hpp>

#include <gtest/gtest.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <latch>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

namespace sluice::test {
namespace {

class folded_memory : public programs {
 protected:
  static constexpr std::size_t mebibyte = std::size_t{1} << 20U;

  void SetUp() override {
    sum_trace.reset();
    programs::SetUp();
  }
  void TearDown() override {
    programs::TearDown();
    sum_trace.reset();
  }
  std::shared_ptr<device> opened_device() override {
    if (GetParam() != "host") return programs::opened_device();
    return open_host_device({.faults = device_faults_});
  }
  runtime_options options_of_runtime() override {
    runtime_options options;
    options.resource = make_failing_resource(make_pool_resource(make_async_resource()), faults_);
    return options;
  }
  [[nodiscard]] bool on_host() { return runtime().device().id().kind == device_kind::host; }
  [[nodiscard]] std::size_t outstanding() {
    runtime().reap_pending();
    return runtime().statistics().bytes_outstanding;
  }
  void await_outstanding(std::size_t bytes) {
    await([&] { return outstanding() <= bytes; });
  }

  /// x + (1 · c) + ... + (terms · c), from the left. Without a fold it has two commands for each
  /// term.
  static program sum_of_multiples(const host_tensor& c, int terms = 1) {
    program_builder p;
    auto sum = p.input("x");
    const auto constant = p.constant("c", c);
    for (int i = 1; i <= terms; ++i) {
      sum = p.add("sum", add(sum, p.add("multiple", affine{.x = constant, .factor = i})));
    }
    return std::move(p).build({sum}, {.capture = capture_policy::never, .fuse = false});
  }
  std::vector<std::uint32_t> expected_sum(const tensor& x, const host_tensor& c, int terms = 1) {
    const auto constant = alone(sluice::upload{.values = c});
    auto sum = x;
    for (int i = 1; i <= terms; ++i) {
      sum = alone(add(sum, alone(affine{.x = constant, .factor = i})));
    }
    return bits(sum);
  }
  prepared known(const program& what, const tensor& x) {
    return prepare_of({what, {tensor_spec::of(x)}});
  }
  /// x + 2 · c, computed by functions of the host.
  static program traced(const host_tensor& c) {
    program_builder p;
    const auto x = p.input("x");
    const auto constant = p.constant("c", c);
    const auto twice = p.add("twice", traced_sum<>{.a = constant, .b = constant});
    return std::move(p).build({p.add("sum", traced_sum<>{.a = x, .b = twice})});
  }
  void expect_traced(const program& what, const host_tensor& c) {
    const auto x = numbers({10});
    const auto sums = values(results_of({what, {x}})[0]);
    auto expected = values(x);
    const auto constant = c.to_vector<float>();
    for (std::size_t i = 0; i < expected.size(); ++i) expected[i] += constant[i] + constant[i];
    EXPECT_EQ(sums, expected);
  }

  std::shared_ptr<fault_countdown> faults_ = std::make_shared<fault_countdown>();
  std::shared_ptr<fault_script> device_faults_ = std::make_shared<fault_script>();
};

TEST_P(folded_memory, is_no_condition_of_runs) {
  const auto c = get(numbers({1000}));
  const auto x = numbers({1000});
  EXPECT_EQ(known(sum_of_multiples(c), x).commands, 1U);
  const auto expected = expected_sum(x, c);
  // Before the block, there must be memory for a run. The runtime tries twice.
  for (const int nth : {1, 2, 3}) {
    const auto what = sum_of_multiples(c);
    faults_->fail_nth(static_cast<std::uint64_t>(nth), 2);
    EXPECT_EQ(known(what, x).commands, 2U) << nth;
    for (int i = 0; i < 2; ++i) EXPECT_EQ(bits(results_of({what, {x}})[0]), expected);
    // All executables of the device compute the same steps.
    const auto other = make_executor();
    const auto shape = tensor_spec::row_major(element_type::f32, {2, 1000});
    EXPECT_EQ(run(*other, sluice::prepare{what, {shape}}).commands, 2U);
  }
}

TEST_P(folded_memory, is_given_back_with_the_last_executable) {
  const auto before = outstanding();
  {
    constexpr std::int64_t count = mebibyte / sizeof(float);
    const auto c = get(numbers({count}));
    const auto x = numbers({1});
    program_builder p;
    const auto twice = p.add("twice", affine{.x = p.constant("c", c), .factor = 2});
    const auto y = p.add("sum", add(p.input("x"), twice.slice(0, 7, 8)));
    const auto what = std::move(p).build({y});
    const auto first = make_executor();
    const auto second = make_executor();
    (void)run(*first, sluice::run{what, {x}});
    const auto with_one = outstanding();
    EXPECT_GE(with_one, before + 2 * mebibyte) << "the constant and its double";
    (void)run(*second, sluice::run{what, {x}});
    (void)run(*second, sluice::run{what, {numbers({1, 1})}});
    EXPECT_LT(outstanding(), with_one + mebibyte) << "the lanes and shapes share them";
  }
  await_outstanding(before + mebibyte / 2);
}

TEST_P(folded_memory, outlives_an_executor_that_ends_during_the_fold) {
  if (!on_host()) GTEST_SKIP() << "a step on a GPU does not wait for the test";
  const auto before = outstanding();
  {
    std::latch begun(1);
    std::latch open(1);
    sum_trace.on_compute = [&] {
      begun.count_down();
      open.wait();
    };
    auto what = std::make_unique<program>(traced(get(numbers({10}))));
    auto ending = make_executor();
    auto answer =
        submit(*ending, sluice::prepare{*what, {tensor_spec::row_major(element_type::f32, {10})}});
    ending->work();
    begun.wait();
    what.reset();
    std::thread opener([&] { open.count_down(); });
    ending.reset();
    opener.join();
    EXPECT_TRUE(answer.answered());
    EXPECT_TRUE(throws(errc::cancelled, "", [&] { (void)answer.get(); }));
    EXPECT_EQ(sum_trace.computed, 1);
  }
  await_outstanding(before);
}

TEST_P(folded_memory, has_no_results_of_steps_that_fail_once) {
  if (!on_host()) GTEST_SKIP() << "launches on a GPU do not fail on demand";
  const auto c = get(numbers({10}));
  const auto what = traced(c);
  sum_trace.failures = 1;
  expect_traced(what, c);
  EXPECT_EQ(sum_trace.computed, 1 + 2);
  expect_traced(what, c);
  EXPECT_EQ(sum_trace.computed, 1 + 4);
}

TEST_P(folded_memory, has_no_results_of_steps_that_always_fail) {
  if (!on_host()) GTEST_SKIP() << "launches on a GPU do not fail on demand";
  const auto c = get(numbers({10}));
  const auto what = traced(c);
  sum_trace.failures = 1000;
  (void)known(what, numbers({10}));
  for (int i = 0; i < 3; ++i) {
    EXPECT_TRUE(throws(errc::library_failure, "step 'twice': no sum", [&] {
      (void)results_of({what, {numbers({10})}});
    }));
  }
  sum_trace.failures = 0;
  expect_traced(what, c);
}

TEST_P(folded_memory, has_no_results_of_launches_that_fail) {
  if (!on_host()) GTEST_SKIP() << "launches on a GPU do not fail on demand";
  const auto c = get(numbers({10}));
  for (const auto target : {fault_target::launch, fault_target::copy}) {
    const auto what = traced(c);
    device_faults_->fail_nth(target, 1);
    (void)prepare_of({what, {tensor_spec::row_major(element_type::f32, {10})}});
    sum_trace.reset();
    expect_traced(what, c);
    EXPECT_EQ(sum_trace.computed, 2) << "by the run";
  }
  // Without the constants there is no program. The next attempt brings them.
  const auto what = traced(c);
  device_faults_->fail_nth(fault_target::copy, 1, 2);
  const auto spec = tensor_spec::row_major(element_type::f32, {10});
  EXPECT_TRUE(throws(errc::library_failure, "", [&] { (void)prepare_of({what, {spec}}); }));
  expect_traced(what, c);
}

TEST_P(folded_memory, ends_with_the_device) {
  if (!on_host()) GTEST_SKIP() << "a GPU is not lost on demand";
  const auto what = traced(get(numbers({10})));
  device_faults_->fail_nth(fault_target::loss, 2);  // the copy of the constants is first
  const auto spec = tensor_spec::row_major(element_type::f32, {10});
  EXPECT_TRUE(throws(errc::device_lost, "", [&] { (void)prepare_of({what, {spec}}); }));
}

/// A budget for the constants and the results of four steps, but not beside a run with large inputs
/// and outputs.
class folded_memory_with_budget : public folded_memory {
 protected:
  static constexpr std::size_t bytes = 4 * mebibyte;
  static constexpr std::int64_t count = bytes / sizeof(float);
  static constexpr int terms = 4;
  runtime_options options_of_runtime() override {
    runtime_options options;
    options.resource = make_budget_resource(make_async_resource(), budget_);
    return options;
  }
  /// x + the sum of some elements of (1 · c), ..., (terms · c).
  program sum_of_elements(const host_tensor& c) {
    program_builder p;
    auto sum = p.input("x");
    const auto constant = p.constant("c", c);
    for (int i = 1; i <= terms; ++i) {
      const auto multiple = p.add("multiple", affine{.x = constant, .factor = i});
      sum = p.add("sum", add(sum, multiple.slice(0, i, i + 1)));
    }
    return std::move(p).build({sum}, {.capture = capture_policy::never, .fuse = false});
  }
  std::vector<std::uint32_t> expected_elements(const tensor& x, const host_tensor& c) {
    const auto numbers_of_c = c.to_vector<float>();
    auto sum = x;
    for (int i = 1; i <= terms; ++i) {
      const host_tensor element(std::vector<float>{numbers_of_c[static_cast<std::size_t>(i)]});
      const auto multiple =
          alone(affine{.x = alone(sluice::upload{.values = element}), .factor = i});
      sum = alone(add(sum, multiple));
    }
    return bits(sum);
  }
  std::shared_ptr<memory_budget> budget_ = std::make_shared<memory_budget>(7 * bytes);
};

TEST_P(folded_memory_with_budget, is_taken_beside_a_small_run) {
  const auto c = get(numbers({count}));
  const auto x = numbers({1});
  const auto what = sum_of_elements(c);
  EXPECT_EQ(known(what, x).commands, static_cast<std::size_t>(terms));
  const auto y = results_of({what, {x}})[0];
  EXPECT_EQ(bits(y), expected_elements(x, c));
}

TEST_P(folded_memory_with_budget, leaves_the_memory_of_a_large_run) {
  const auto c = get(numbers({count}));
  const auto x = numbers({count});
  const auto what = sum_of_elements(c);
  const auto unfolded = known(what, x);
  EXPECT_EQ(unfolded.commands, 2U * terms);
  EXPECT_GE(unfolded.scratch_bytes, bytes);
  const auto y = results_of({what, {x}})[0];
  const auto all = bits(y);
  const auto numbers_of_x = values(x);
  const auto numbers_of_c = c.to_vector<float>();
  for (const std::size_t k : {std::size_t{0}, std::size_t{4711}, std::size_t{count - 1}}) {
    const auto one = alone(sluice::upload{.values = host_tensor(std::vector{numbers_of_x[k]})});
    EXPECT_EQ(all[k], expected_elements(one, c)[0]);
  }
}

INSTANTIATE_TEST_SUITE_P(devices, folded_memory, every_device(), parameter_name);
INSTANTIATE_TEST_SUITE_P(devices, folded_memory_with_budget, every_device(), parameter_name);

}  // namespace
}  // namespace sluice::test
