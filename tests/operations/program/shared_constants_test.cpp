// SPDX-License-Identifier: Apache-2.0
// Large constants in host memory. All programs of a device share one copy of those that nobody
// writes any more.
#include "operations/program/shared_constant.hpp"
#include "operations/seam.hpp"
#include "tests/operations/program/programs.hpp"
#include "tests/support/expect_error.hpp"
#include "tests/support/gate.hpp"

#include <sluice/runtime/host_device.hpp>
#include <sluice/runtime/memory_adaptor.hpp>
#include <sluice/runtime/memory_adaptors.hpp>

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <latch>
#include <memory>
#include <random>
#include <string_view>
#include <utility>
#include <vector>

namespace sluice::test {
namespace {

using operations::shared_constant;

/// What the planners of a test have allocated.
struct constant_blocks {
  std::atomic<int> constants{0};        ///< of large constants
  std::atomic<int> copies{0};           ///< in other orders
  std::function<void()> on_constant{};  ///< called before one is allocated; it may throw
};

class counting_resource final : public memory_adaptor {
 public:
  explicit counting_resource(std::shared_ptr<constant_blocks> counts)
      : memory_adaptor(make_async_resource(), "counting_resource"), counts_(std::move(counts)) {}

  granted_memory allocate(const allocation_request& request) override {
    const auto tag = request.tag.name();
    const bool is_constant =
        tag == "constants of a program" && request.bytes >= shared_constant::min_bytes;
    if (is_constant && counts_->on_constant) counts_->on_constant();
    auto granted = upstream().allocate(request);
    if (is_constant) ++counts_->constants;
    if (tag == "copies of constants of a program") ++counts_->copies;
    return granted;
  }
  std::string_view name() const noexcept override { return "counting"; }

 private:
  std::shared_ptr<constant_blocks> counts_;
};

class shared_constants : public programs {
 protected:
  static constexpr std::size_t mebibyte = std::size_t{1} << 20U;
  static constexpr std::int64_t count = mebibyte / sizeof(float);

  std::shared_ptr<device> opened_device() override {
    if (GetParam() != "host") return programs::opened_device();
    return open_host_device({.faults = device_faults_});
  }
  runtime_options options_of_runtime() override {
    runtime_options options;
    options.resource = std::make_unique<counting_resource>(blocks_);
    return options;
  }
  [[nodiscard]] bool is_on_host() { return runtime().device().id().kind == device_kind::host; }
  [[nodiscard]] std::size_t outstanding() {
    runtime().reap_pending();
    return runtime().statistics().bytes_outstanding;
  }
  host_tensor table() { return get(numbers({count})); }
  /// A table that programs share.
  host_tensor fixed_table() {
    auto elements = table();
    detail::fixed_elements::fix(elements);
    return elements;
  }
  /// How many blocks `tables` fixed tables take: a host device reads them where they are.
  [[nodiscard]] int blocks_of_fixed(int tables) { return is_on_host() ? 0 : tables; }
  /// factor · x + the element `i` of a constant, with a small constant of its own.
  static program sum_with(const host_tensor& constant, std::int64_t i, float factor) {
    program_builder p;
    const auto scaled = p.add(
        "scaled", multiply(p.input("x"), p.constant("factor", host_tensor(std::vector{factor}))));
    const auto c = p.constant("table", constant);
    return std::move(p).build({p.add("sum", add(scaled, c.slice(0, i, i + 1)))});
  }
  static float expected_sum(const host_tensor& constant, std::int64_t i, float factor, float x) {
    const float scaled = factor * x;
    return scaled + constant.values<float>()[static_cast<std::size_t>(i)];
  }
  /// Runs such a program, with inputs of any number of elements.
  void expect_sum(executor& on, const host_tensor& constant, std::int64_t i, float factor,
                  std::int64_t size) {
    expect_sum(on, sum_with(constant, i, factor), constant, i, factor, size);
  }
  void expect_sum(executor& on, const program& what, const host_tensor& constant, std::int64_t i,
                  float factor, std::int64_t size) {
    const auto x = numbers({size});
    const auto found = values(sluice::test::executor_test::run(on, sluice::run{what, {x}})[0]);
    const auto given = values(x);
    ASSERT_EQ(found.size(), given.size());
    for (std::size_t k = 0; k < found.size(); ++k) {
      EXPECT_FLOAT_EQ(found[k], expected_sum(constant, i, factor, given[k]));
    }
  }
  std::int64_t index() {
    return std::uniform_int_distribution<std::int64_t>(0, count - 1)(random_);
  }

  std::shared_ptr<constant_blocks> blocks_ = std::make_shared<constant_blocks>();
  std::shared_ptr<fault_script> device_faults_ = std::make_shared<fault_script>();
  std::mt19937_64 random_ = make_generator();
};

TEST_P(shared_constants, take_the_memory_of_one_for_all_programs) {
  const auto constant = fixed_table();
  const auto first = sum_with(constant, index(), 2);
  const auto x = numbers({3});
  (void)results_of({first, {x}});
  EXPECT_EQ(blocks_->constants, blocks_of_fixed(1));
  const auto with_one = outstanding();
  std::vector<program> others;
  for (int i = 0; i < 5; ++i) {
    const auto k = index();
    others.push_back(sum_with(constant.reshape({1, count}).reshape({count}), k, 0.5F));
    expect_sum(test_executor(), others.back(), constant, k, 0.5F, 10 + i);
  }
  EXPECT_EQ(blocks_->constants, blocks_of_fixed(1));
  EXPECT_LT(outstanding(), with_one + mebibyte / 2);
  // A program with other elements has other memory.
  expect_sum(test_executor(), fixed_table(), index(), 1, 2);
  EXPECT_EQ(blocks_->constants, blocks_of_fixed(2));
}

TEST_P(shared_constants, are_freed_with_the_last_program_in_any_order) {
  const auto before = outstanding();
  for (int round = 0; round < 4; ++round) {
    auto constant = fixed_table();
    const std::weak_ptr<const void> memory = std::as_const(constant).data();
    const host_tensor expected(constant.to_vector<float>());
    auto lane = make_executor();
    std::vector<std::pair<program, std::int64_t>> all;
    for (int i = 0; i < 4; ++i) {
      const auto k = index();
      all.emplace_back(sum_with(constant, k, 3), k);
    }
    constant = host_tensor();  // the programs own it
    for (const auto& [what, k] : all) expect_sum(*lane, what, expected, k, 3, 5);
    EXPECT_EQ(blocks_->constants, blocks_of_fixed(round + 1));
    std::shuffle(all.begin(), all.end(), random_);
    while (all.size() > 1) {
      all.pop_back();
      for (const auto& [what, k] : all) expect_sum(*lane, what, expected, k, 3, 6);
    }
    EXPECT_EQ(blocks_->constants, blocks_of_fixed(round + 1));
    all.clear();
    lane.reset();
    await([&] { return outstanding() < before + mebibyte && memory.expired(); });
  }
}

// A program that is made after the last one with the same memory has ended reads it again.
TEST_P(shared_constants, of_memory_that_is_written_between_programs_are_read_again) {
  auto constant = table();
  for (int round = 0; round < 5; ++round) {
    for (auto& element : constant.values<float>()) element += 1;
    expect_sum(test_executor(), constant, index(), 1, 3);
  }
}

// They may be written once the owner of a program has dropped it. Others may still hold its graph.
TEST_P(shared_constants, that_are_not_fixed_belong_to_one_program) {
  auto constant = table();
  auto first = sum_with(constant, index(), 2);
  const auto x = numbers({3});
  (void)results_of({first, {x}});
  EXPECT_EQ(blocks_->constants, 1);
  (void)results_of({sum_with(constant, index(), 2), {x}});
  EXPECT_EQ(blocks_->constants, 2);
  // Another lane of the program shares its copy.
  const auto lane = make_executor();
  (void)sluice::test::executor_test::run(*lane, sluice::run{first, {x}});
  EXPECT_EQ(blocks_->constants, 2);
  const auto held = first.graph();  // as a job of the planner does
  first = program();
  for (auto& element : constant.values<float>()) element += 1;
  expect_sum(test_executor(), constant, index(), 1, 3);
  expect_sum(*lane, constant, index(), 1, 3);
  EXPECT_EQ(blocks_->constants, 4);
}

TEST_P(shared_constants, are_uploaded_by_one_of_several_threads) {
  constexpr int lanes = 4;
  for (int round = 0; round < 5; ++round) {
    const auto constant = table();
    const auto before = blocks_->constants.load();
    const auto x = numbers({3});
    const auto given = values(x);
    std::vector<std::unique_ptr<executor>> executors;
    std::vector<pending<tensors>> answers;
    const auto i = index();
    const auto what = sum_with(constant, i, 2);
    for (int k = 0; k < lanes; ++k) executors.push_back(make_executor());
    // Each executor has a planner thread or a share of one, and the program has not been planned.
    for (const auto& lane : executors) answers.push_back(submit(*lane, sluice::run{what, {x}}));
    for (std::size_t k = 0; k < executors.size(); ++k) {
      const auto found = values(wait(*executors[k], answers[k])[0]);
      EXPECT_FLOAT_EQ(found[0], expected_sum(constant, i, 2, given[0]));
    }
    EXPECT_EQ(blocks_->constants, before + 1);
  }
}

// The upload of one lane fails while another one waits for it, which then makes the copy.
TEST_P(shared_constants, are_uploaded_by_another_lane_if_one_fails) {
  const auto constant = table();
  const auto spec = tensor_spec::row_major(element_type::f32, {3});
  const auto before = outstanding();
  std::atomic<int> attempts{0};
  std::latch begun(1);
  std::latch open(1);
  blocks_->on_constant = [&] {
    if (attempts++ > 0) return;
    begun.count_down();
    open.wait();
    throw error(errc::library_failure, "the test lets it fail");
  };
  const auto what = sum_with(constant, 0, 1);
  const auto failing_lane = make_executor();
  auto failing = submit(*failing_lane, sluice::prepare{what, {spec}});
  failing_lane->work();
  begun.wait();
  const auto other_lane = make_executor();
  auto other = submit(*other_lane, sluice::prepare{what, {spec}});
  other_lane->work();
  open.count_down();
  EXPECT_TRUE(
      throws(errc::library_failure, "the test", [&] { (void)wait(*failing_lane, failing); }));
  EXPECT_NO_THROW((void)wait(*other_lane, other));
  EXPECT_EQ(blocks_->constants, 1);
  blocks_->on_constant = {};
  expect_sum(*failing_lane, what, constant, 0, 1, 3);
  expect_sum(*other_lane, what, constant, 0, 1, 3);
  EXPECT_EQ(blocks_->constants, 1);
  EXPECT_LT(outstanding(), before + mebibyte + mebibyte / 2);
}

TEST_P(shared_constants, are_uploaded_again_after_a_failure) {
  // The second of two large constants finds no memory, which the runtime tries twice to get.
  const auto one = table();
  const auto two = table();
  program_builder p;
  const auto sum = p.add("sum", add(p.input("x"), p.constant("one", one).slice(0, 7, 8)));
  const auto what =
      std::move(p).build({p.add("more", add(sum, p.constant("two", two).slice(0, 9, 10)))});
  const auto before = outstanding();
  std::atomic<int> attempts{0};
  blocks_->on_constant = [&] {
    if (++attempts > 1) throw error(errc::library_failure, "the test lets it fail");
  };
  const auto x = numbers({1});
  EXPECT_TRUE(throws(errc::library_failure, "the test", [&] { (void)results_of({what, {x}}); }));
  blocks_->on_constant = {};
  await([&] { return outstanding() < before + mebibyte; });
  const float expected = values(x)[0] + one.values<float>()[7];
  EXPECT_FLOAT_EQ(values(results_of({what, {x}})[0])[0], expected + two.values<float>()[9]);
  if (!is_on_host()) return;
  // A copy fails on the way.
  const auto three = table();
  device_faults_->fail_nth(fault_target::copy, 1);
  const auto failing = sum_with(three, 3, 2);
  EXPECT_TRUE(throws(errc::library_failure, "", [&] {
    (void)prepare_of({failing, {tensor_spec::row_major(element_type::f32, {1})}});
  }));
  expect_sum(test_executor(), failing, three, 3, 2, 1);
}

TEST_P(shared_constants, end_with_the_device) {
  if (!is_on_host()) GTEST_SKIP() << "a GPU is not lost on demand";
  const auto constant = table();
  device_faults_->fail_nth(fault_target::loss, 1);
  for (int i = 0; i < 2; ++i) {
    const auto what = sum_with(constant, i, 1);
    EXPECT_TRUE(throws(errc::device_lost, "", [&] {
      (void)prepare_of({what, {tensor_spec::row_major(element_type::f32, {3})}});
    }));
  }
}

// Steps of constants read shared constants, and their results belong to the program.
TEST_P(shared_constants, are_operands_of_steps_that_are_computed_once) {
  const auto constant = fixed_table();
  const auto x = numbers({count});
  std::vector<program> all;  // which share the constant while they live
  for (const float factor : {2.0F, -3.0F}) {
    program_builder p;
    const auto scaled =
        p.add("scaled", affine{.x = p.constant("table", constant), .factor = factor});
    const auto what = std::move(p).build({p.add("sum", add(p.input("x"), scaled))});
    const auto on_device = alone(sluice::upload{.values = constant});
    const auto expected = alone(add(x, alone(affine{.x = on_device, .factor = factor})));
    const auto known = prepare_of({what, {tensor_spec::of(x)}});
    // A GPU also counts the copies of a graph.
    if (is_on_host()) {
      EXPECT_EQ(known.commands, 1U);
    }
    EXPECT_EQ(bits(results_of({what, {x}})[0]), bits(expected));
    all.push_back(what);
  }
  EXPECT_EQ(blocks_->constants, blocks_of_fixed(1) + 2)
      << "the constant, and the results of two programs";
}

TEST_P(shared_constants, have_one_copy_in_each_order) {
  constexpr std::int64_t rows = 1 << 16;
  const auto m = numbers({rows, 2});
  const auto constant = get(m);
  detail::fixed_elements::fix(constant);
  const auto x = numbers({3, rows});
  std::vector<program> all;
  for (const int column : {0, 1, 0, 1}) {
    program_builder p;
    const auto c = p.constant("m", constant);
    all.push_back(std::move(p).build(
        {p.add("norm", layer_norm{.x = p.input("x"), .scale = c.select(1, column)})}));
    const auto scale = alone(strided_copy{.x = m.select(1, column)});
    EXPECT_EQ(bits(results_of({all.back(), {x}})[0]),
              bits(alone(layer_norm{.x = x, .scale = scale})));
  }
  EXPECT_EQ(blocks_->constants, blocks_of_fixed(1));
  EXPECT_EQ(blocks_->copies, 2);
}

// A host device reads elements that nobody will write where they are.
TEST_P(shared_constants, that_are_fixed_stay_where_they_are_on_a_host_device) {
  const auto constant = fixed_table();
  const auto before = outstanding();
  const auto what = sum_with(constant, 5, 2);
  expect_sum(test_executor(), what, constant, 5, 2, 3);
  EXPECT_EQ(blocks_->constants, blocks_of_fixed(1));
  if (!is_on_host()) return;
  EXPECT_LT(outstanding(), before + mebibyte / 2);
  // The owner of other memory is not known. It may not be aligned as that of a device.
  const host_tensor other(constant.to_vector<float>());
  detail::fixed_elements::fix(other);
  expect_sum(test_executor(), other, 5, 2, 3);
  EXPECT_EQ(blocks_->constants, 1);
}

INSTANTIATE_TEST_SUITE_P(devices, shared_constants, every_device(), parameter_name);

}  // namespace
}  // namespace sluice::test
