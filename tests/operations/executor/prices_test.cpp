// SPDX-License-Identifier: Apache-2.0
// What a request costs is known, and limited, before it takes a place in the queue.
#include "tests/operations/executing.hpp"
#include "tests/operations/executor/planned_operation.hpp"
#include "tests/support/expect_error.hpp"

#include <sluice/operations/blas.hpp>
#include <sluice/operations/dnn.hpp>
#include <sluice/operations/elementwise.hpp>
#include <sluice/operations/fft.hpp>
#include <sluice/operations/program.hpp>
#include <sluice/operations/reduce.hpp>
#include <sluice/operations/transfer.hpp>

#include <gtest/gtest.h>

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

namespace sluice::test {
namespace {

class prices : public executor_test {
 protected:
  tensor words(std::size_t count = 4) {
    return upload(runtime(), stream(), std::vector<std::uint32_t>(count, 1));
  }
  [[nodiscard]] bool on_host() { return runtime().device().id().kind == device_kind::host; }
  /// Nothing waits, and no plan was made.
  void expect_idle() {
    EXPECT_EQ(test_executor().waiting(), 0U);
    EXPECT_EQ(test_executor().status().plans.made, 0U);
  }
};

// It would occupy the lane for years.
TEST_P(prices, refuse_work_that_has_no_end) {
  const auto x = words(1);
  const auto many = x.broadcast_to({std::int64_t{1} << 30U, std::int64_t{1} << 30U});
  EXPECT_TRUE(throws(errc::unsupported, "device_service_options::limits::max_work",
                     [&] { (void)run(test_executor(), reduce{.x = many}); }));
  expect_idle();
  EXPECT_EQ(run(test_executor(), fill{.value = 1, .shape = extents{4}}).size(), 4U);
}

TEST_P(prices, refuse_programs_with_steps_that_have_no_end) {
  program_builder p;
  const auto x = p.input("x");
  const auto sum = p.add("sum", reduce{.x = x});
  const auto program = std::move(p).build({sum});
  const auto many = words(1).broadcast_to({std::int64_t{1} << 30U, std::int64_t{1} << 30U});
  EXPECT_TRUE(throws(errc::unsupported, "program: takes ", [&] {
    (void)run(test_executor(), sluice::run{program, {many}});
  }));
  EXPECT_TRUE(throws(errc::unsupported, "max_work", [&] {
    (void)run(test_executor(), prepare{program, {tensor_spec::of(many)}});
  }));
  expect_idle();
}

// Products and transforms do more than a step for each element.
TEST_P(prices, grow_with_the_work_of_an_operation) {
  const auto zeros = upload(runtime(), stream(), std::vector<float>(std::size_t{1} << 16U));
  const auto view = [&](const extents& shape, element_type type = element_type::f32) {
    return tensor(zeros.block(), type, shape);
  };
  // Elements of the operands and the result, and 256³ / 32 + 150 or 7 · 1024 · 10
  // units.
  struct {
    double work;
    std::function<void(executor&)> request;
  } const cases[]{{3 * 65536 + 524288 + 150,
                   [&](executor& executor) {
                     (void)run(executor, gemm{.a = view({256, 256}), .b = view({256, 256})});
                   }},
                  {2 * 7 * 512 + 7 * 512 * 10, [&](executor& executor) {
                     (void)run(executor, fft{.x = view({7, 512}, element_type::c64)});
                   }}};
  for (const auto& priced : cases) {
    const auto enough = make_executor({.max_work = priced.work});
    EXPECT_NO_THROW(priced.request(*enough));
    const auto less = make_executor({.max_work = priced.work - 1});
    EXPECT_TRUE(throws(errc::unsupported, "executor_options::max_work is ",
                       [&] { priced.request(*less); }));
    EXPECT_EQ(less->status().plans.made, 0U);
  }
}

TEST_P(prices, of_programs_are_those_of_their_steps) {
  if (!on_host()) GTEST_SKIP() << "the operation is one of the host device";
  plan_script script;
  program_builder p;
  const auto x = p.input("x");
  const auto y = p.add("first", planned{.x = x, .key = 1, .work = 50, .known_bytes = 300});
  const auto z = p.add("second", planned{.x = y, .key = 1, .work = 70, .known_bytes = 300});
  const auto last = p.add("third", planned{.x = z, .key = 2, .known_bytes = 200});
  const auto program = std::move(p).build({last});
  const auto words_in = words();
  // Three steps with two operands of 4 elements, and the operands of the run itself.
  constexpr double work = 120 + 3 * 8 + 8;
  const auto run_with = [&](const executor_options& options) {
    const auto executor = make_executor(options);
    const auto result = run(*executor, sluice::run{program, {words_in}});
    return executor->status().plans.made;
  };
  EXPECT_EQ(run_with({.max_work = work}), 1U);
  EXPECT_TRUE(throws(errc::unsupported, "max_work", [&] { run_with({.max_work = work - 1}); }));
  // Steps with equal keys share a plan.
  const auto planning = 2 * plan_price::usual_work + 3 * 1024;
  const auto begun = script.begun(1);
  EXPECT_TRUE(throws(errc::unsupported, "max_planning_work",
                     [&] { run_with({.max_planning_work = planning - 1}); }));
  EXPECT_TRUE(throws(errc::unsupported, "program: the plan needs 500 bytes of host memory",
                     [&] { run_with({.max_host_bytes_of_plan = 499}); }));
  EXPECT_EQ(script.begun(1), begun) << "refused before a plan was begun";
  EXPECT_EQ(run_with({.max_planning_work = planning}), 1U);
}

TEST_P(prices, refuse_plans_before_they_are_begun) {
  if (!on_host()) GTEST_SKIP() << "the operation is one of the host device";
  plan_script script;
  const auto x = words();
  const auto small = make_executor({.max_host_bytes_of_plan = 1000, .max_planning_work = 1 << 22U});
  (void)run(*small, planned{.x = x, .key = 1, .known_bytes = 1000, .planning_work = 1 << 22U});
  EXPECT_TRUE(throws(errc::unsupported,
                     "planned: the plan needs 1001 bytes of host memory, but "
                     "executor_options::max_host_bytes_of_plan is 1000",
                     [&] { (void)run(*small, planned{.x = x, .key = 2, .known_bytes = 1001}); }));
  EXPECT_TRUE(
      throws(errc::unsupported,
             "planned: the plan takes 4194305 units of work, but "
             "executor_options::max_planning_work is 4194304",
             [&] { (void)run(*small, planned{.x = x, .key = 2, .planning_work = 4194305}); }));
  EXPECT_EQ(script.begun(2), 0);
}

// Its tables would take 1.4 GB and 4 s.
TEST_P(prices, refuse_a_transform_whose_tables_do_not_fit_beside_other_plans) {
  if (!on_host()) GTEST_SKIP() << "cuFFT does not tell the size of a plan in host memory";
  program_builder p;
  const auto x = p.input("x");
  const auto y = p.add("y", fft{.x = x});
  const auto program = std::move(p).build({y});
  const auto signal = [](std::int64_t length) {
    return tensor_spec::row_major(element_type::c64, {1, length});
  };
  EXPECT_TRUE(throws(errc::unsupported, "limits::max_host_bytes_of_plan is 201326592", [&] {
    (void)run(test_executor(), prepare{program, {signal((std::int64_t{1} << 22U) + 7)}});
  }));
  expect_idle();
  // Every length up to 2^20 is possible.
  (void)run(test_executor(), prepare{program, {signal((1 << 14U) + 27)}});
  EXPECT_EQ(test_executor().status().plans.made, 1U);
}

TEST_P(prices, let_short_plans_pass_long_ones) {
  if (!on_host()) GTEST_SKIP() << "the operation is one of the host device";
  plan_script script;
  const auto x = words();
  constexpr double long_time = 1 << 30U;
  script.hold(1);
  auto first =
      submit(test_executor(), planned{.x = x, .key = 1, .planning_work = long_time}, {}, {1});
  auto second =
      submit(test_executor(), planned{.x = x, .key = 2, .planning_work = long_time}, {}, {1});
  script.await_begun(1);
  // Of another sender, and of another executor.
  auto other = submit(test_executor(), planned{.x = x, .key = 3}, {}, {2});
  (void)wait(other);
  const auto elsewhere = make_executor();
  (void)run(*elsewhere, planned{.x = x, .key = 4});
  EXPECT_FALSE(first.answered());
  EXPECT_EQ(script.begun(2), 0);
  script.open(1);
  (void)wait(first);
  (void)wait(second);
}

/// The limits that a service states for all its actors.
class prices_of_service : public prices {
 protected:
  device_service_options options_of_service() override {
    device_service_options options;
    options.limits = {
        .max_work = 100, .max_planning_work = 1 << 21U, .max_host_bytes_of_plan = 4096};
    return options;
  }
};

TEST_P(prices_of_service, hold_unless_an_executor_states_others) {
  plan_script script;
  const auto x = words();
  (void)run(test_executor(), planned{.x = x, .work = 92});
  EXPECT_TRUE(throws(errc::unsupported, "device_service_options::limits::max_work is 100",
                     [&] { (void)run(test_executor(), planned{.x = x, .work = 93}); }));
  EXPECT_TRUE(throws(errc::unsupported, "limits::max_planning_work is 2097152", [&] {
    (void)run(test_executor(), planned{.x = x, .key = 1, .planning_work = 1 << 22U});
  }));
  EXPECT_TRUE(throws(errc::unsupported, "limits::max_host_bytes_of_plan is 4096", [&] {
    (void)run(test_executor(), planned{.x = x, .key = 1, .known_bytes = 4097});
  }));
  const auto large = make_executor({.max_work = 101});
  (void)run(*large, planned{.x = x, .work = 93});
}

INSTANTIATE_TEST_SUITE_P(devices, prices, every_device(), parameter_name);
INSTANTIATE_TEST_SUITE_P(devices, prices_of_service, ::testing::Values("host"), parameter_name);

}  // namespace
}  // namespace sluice::test
