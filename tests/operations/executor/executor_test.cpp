// SPDX-License-Identifier: Apache-2.0
#include "operations/seam.hpp"
#include "tests/operations/executing.hpp"
#include "tests/operations/executor/planned_operation.hpp"
#include "tests/support/expect_error.hpp"
#include "tests/support/gate.hpp"

#include <sluice/operations/transfer.hpp>
#include <sluice/runtime/dlpack.hpp>
#include <sluice/runtime/host_device.hpp>
#include <sluice/runtime/memory_budget.hpp>

#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <future>
#include <string>
#include <vector>

namespace sluice::test {
namespace {

class executor_queue : public executor_test {
 protected:
  tensor words(std::uint32_t value, std::size_t count = 4) {
    return upload(runtime(), stream(), std::vector<std::uint32_t>(count, value));
  }
  std::uint32_t first(const tensor& t) { return download(t.as<std::uint32_t>(), stream())[0]; }
  /// Makes the plans with key 2: while another plan is held back, the planner makes none.
  void make_plan_2() { (void)run(test_executor(), planned{.x = words(0), .key = 2}); }
  /// Submits without waiting.
  pending_answer send(planned operation, const request_options& options = {},
                      request_sender sender = {}) {
    return submit(test_executor(), std::move(operation), options, sender);
  }

  [[nodiscard]] plan_script& script() { return script_; }

 private:
  plan_script script_;
};

TEST_P(executor_queue, makes_a_plan_once_for_all_requests_with_its_key) {
  script().hold(7);
  const auto x = words(1);
  std::vector<pending_answer> answers;
  answers.reserve(10);
  for (int i = 0; i < 10; ++i) answers.push_back(send({.x = x, .key = 7}));
  EXPECT_EQ(test_executor().waiting(), 10U);
  script().open(7);
  for (auto& a : answers) (void)wait(a);
  (void)run(test_executor(), planned{.x = x, .key = 7});
  EXPECT_EQ(script().begun(7), 1);
}

TEST_P(executor_queue, lets_requests_pass_one_that_waits_for_its_plan) {
  make_plan_2();
  script().hold(1);
  const auto x = words(1);
  auto parked = send({.x = x, .y = words(0), .key = 1});
  // Only reads in common, or nothing.
  (void)run(test_executor(), planned{.x = x, .y = words(0), .key = 2});
  (void)run(test_executor(), planned{.x = words(3), .key = 2});
  EXPECT_FALSE(parked.answered());
  script().open(1);
  EXPECT_EQ(first(wait(parked)), 1U);
}

TEST_P(executor_queue, keeps_the_order_of_requests_with_a_hazard) {
  make_plan_2();
  script().hold(1);
  const auto x = words(1);
  const auto y = words(0);
  const auto z = words(0);
  // y = 1; then z = y, and y = 2y + 1, in this order.
  auto writes = send({.x = x, .y = y, .key = 1});
  auto reads = send({.x = y, .y = z, .key = 2});
  auto updates = send({.x = x, .y = y, .key = 2});
  // Overlaps neither.
  (void)run(test_executor(), planned{.x = x, .y = words(0), .key = 2});
  EXPECT_FALSE(reads.answered());
  EXPECT_FALSE(updates.answered());
  EXPECT_EQ(test_executor().waiting(), 3U);
  script().open(1);
  (void)wait(writes);
  (void)wait(reads);
  (void)wait(updates);
  EXPECT_EQ(first(y), 3U);
  EXPECT_EQ(first(z), 1U);
}

TEST_P(executor_queue, orders_by_bytes_and_not_by_block) {
  make_plan_2();
  script().hold(1);
  const auto memory = words(0, 8);
  const auto one = words(1);
  auto parked = send({.x = one, .y = memory.slice(0, 0, 4), .key = 1});
  (void)run(test_executor(), planned{.x = one, .y = memory.slice(0, 4, 8), .key = 2});
  auto overlapping = send({.x = one, .y = memory.slice(0, 3, 7), .key = 2});
  (void)run(test_executor(), planned{.x = one, .key = 2});
  EXPECT_FALSE(overlapping.answered());
  script().open(1);
  (void)wait(parked);
  (void)wait(overlapping);
  EXPECT_EQ(download(memory.as<std::uint32_t>(), stream()),
            (std::vector<std::uint32_t>{1, 1, 1, 3, 3, 3, 3, 1}));
}

TEST_P(executor_queue, remembers_what_a_library_does_not_support) {
  const auto x = words(1);
  script().fail(3, errc::unsupported);
  for (int i = 0; i < 3; ++i) {
    EXPECT_TRUE(throws(errc::unsupported, "scripted",
                       [&] { (void)run(test_executor(), planned{.x = x, .key = 3}); }));
  }
  EXPECT_EQ(script().begun(3), 1);
  // Any other failure may be gone the next time.
  script().fail(4, errc::out_of_memory);
  EXPECT_TRUE(throws(errc::out_of_memory, "scripted",
                     [&] { (void)run(test_executor(), planned{.x = x, .key = 4}); }));
  (void)run(test_executor(), planned{.x = x, .key = 4});
  EXPECT_EQ(script().begun(4), 2);
}

TEST_P(executor_queue, answers_all_requests_whose_plan_fails) {
  script().hold(5);
  script().fail(5, errc::library_failure);
  const auto x = words(1);
  const auto y = words(9);
  auto first_request = send({.x = x, .y = y, .key = 5});
  auto second_request = send({.x = x, .key = 5});
  auto behind = send({.x = y, .key = 6});
  script().open(5);
  EXPECT_TRUE(throws(errc::library_failure, "scripted", [&] { (void)wait(first_request); }));
  EXPECT_TRUE(throws(errc::library_failure, "scripted", [&] { (void)wait(second_request); }));
  // A request that was refused has written nothing.
  EXPECT_EQ(first(wait(behind)), 9U);
  EXPECT_EQ(first(y), 9U);
}

TEST_P(executor_queue, lets_a_request_pass_any_number_of_parked_ones) {
  make_plan_2();
  script().hold(1);
  const auto x = words(1);
  std::vector<pending_answer> parked;
  parked.reserve(200);
  for (int i = 0; i < 200; ++i) parked.push_back(send({.x = x, .key = 1}));
  (void)run(test_executor(), planned{.x = x, .key = 2});
  script().open(1);
  for (auto& a : parked) (void)wait(a);
}

TEST_P(executor_queue, takes_requests_from_answers_to_failed_ones) {
  make_plan_2();
  script().hold(5);
  script().fail(5, errc::library_failure);
  const auto x = words(1);
  pending_answer retried(waking_alarm());
  for (int i = 0; i < 5; ++i) {
    test_executor().submit(planned{.x = x, .key = 5}, {},
                           reply_token<tensor>::from([](const tensor&) {},
                                                     [&, i](const error&) {
                                                       for (int j = 0; j < 20; ++j) {
                                                         (void)send({.x = x, .key = 2});
                                                       }
                                                       if (i == 4) {
                                                         test_executor().submit(
                                                             planned{.x = x, .key = 2}, {},
                                                             retried.token());
                                                       }
                                                     }));
  }
  script().open(5);
  EXPECT_EQ(first(wait(retried)), 1U);
}

TEST_P(executor_queue, answers_parked_requests_after_a_loss) {
  script().hold(1);
  const auto x = words(1);
  auto parked = send({.x = x, .key = 1});
  script().await_begun(1);
  runtime().device().lose(error(errc::device_lost, "a test's"));
  // The loss wakes the owner while the plan is being made.
  EXPECT_TRUE(throws(errc::device_lost, "a test's", [&] { (void)wait(parked); }));
  script().open(1);
}

TEST_P(executor_queue, may_be_destroyed_by_the_planner_that_wakes_it) {
  const auto x = words(1);
  auto owner = std::make_shared<std::unique_ptr<executor>>(std::make_unique<executor>(service()));
  std::atomic<bool> gone{false};
  (*owner)->on_wake([weak = std::weak_ptr(owner), &gone]() mutable {
    if (const auto last = weak.lock()) {
      last->reset();
      gone = true;
    }
  });
  script().hold(9);
  auto parked = submit(**owner, planned{.x = x, .key = 9});
  script().open(9);
  await([&] { return gone.load(); });
  EXPECT_TRUE(throws(errc::cancelled, "", [&] { (void)parked.get(); }));
  // The planner serves others.
  (void)run(test_executor(), planned{.x = x, .key = 10});
}

/// Whatever watches over a plan goes with the runtime, whether the plan is made or dropped.
TEST_P(executor_queue, leaves_no_device_behind) {
  for (int i = 0; i < 30; ++i) {
    auto device = open_host_device({});
    const std::weak_ptr<sluice::device> ended = device;
    auto other = std::make_shared<device_service>(std::move(device));
    auto short_lived = std::make_unique<executor>(other);
    short_lived->on_wake(waking());
    const auto ask = [&](int key) {
      const auto stream = short_lived->lane().stream();
      return submit(
          *short_lived,
          planned{.x = tensor(other->runtime().allocate<std::uint32_t>(4, stream, "test")),
                  .key = key});
    };
    script().hold(i);
    auto begun = ask(i);
    script().await_begun(i);
    auto dropped = ask(1000);
    script().open(i);
    short_lived.reset();
    EXPECT_TRUE(begun.answered());
    EXPECT_TRUE(dropped.answered());
    other.reset();
    ASSERT_TRUE(ended.expired()) << i;
  }
}

TEST_P(executor_queue, keeps_plans_within_their_bytes) {
  const auto x = words(1);
  constexpr std::size_t mebibyte = std::size_t{1} << 20U;
  for (std::int64_t key = 100; key < 700; ++key) {
    (void)run(test_executor(), planned{.x = x, .key = key, .plan_bytes = mebibyte});
  }
  (void)run(test_executor(), planned{.x = x, .key = 699, .plan_bytes = mebibyte});
  (void)run(test_executor(), planned{.x = x, .key = 300, .plan_bytes = mebibyte});
  EXPECT_EQ(script().begun(699), 1);
  EXPECT_EQ(script().begun(300), 1);
  // Beyond 512 MiB the plans that were used longest ago are gone.
  (void)run(test_executor(), planned{.x = x, .key = 100, .plan_bytes = mebibyte});
  EXPECT_EQ(script().begun(100), 2);
}

TEST_P(executor_queue, destroys_dropped_plans) {
  const auto x = words(1);
  constexpr std::size_t mebibyte = std::size_t{1} << 20U;
  const auto small = make_executor({.max_plan_bytes = 10 * mebibyte});
  for (std::int64_t key = 0; key < 100; ++key) {
    (void)run(*small, planned{.x = x, .key = key, .plan_bytes = mebibyte});
    const auto plans = small->status().plans;
    EXPECT_EQ(plans.made, static_cast<std::uint64_t>(key) + 1);
    EXPECT_LE(plans.kept_bytes, 10 * mebibyte);
    EXPECT_GE(plans.alive, plans.kept);
  }
  EXPECT_EQ(small->status().plans.kept, 9U);
  // The launch of the last plan and the reclaim thread drop theirs a little later.
  await([&] { return small->status().plans.alive == 9; });
  EXPECT_EQ(small->status().plans.alive_bytes, 9 * mebibyte);
  EXPECT_EQ(scripted_plan::alive(), 9);
}

TEST_P(executor_queue, charges_plans_until_they_are_destroyed) {
  const auto x = words(1);
  constexpr std::size_t mebibyte = std::size_t{1} << 20U;
  const auto budget = memory_budget::of(runtime().device().id());
  const auto before = budget->snapshot().reserved;
  auto few = make_executor({.max_plan_bytes = 3 * mebibyte});
  for (std::int64_t key = 0; key < 10; ++key) {
    (void)run(*few, planned{.x = x, .key = key, .device_bytes = mebibyte});
  }
  await([&] { return few->status().plans.alive == 2; });
  EXPECT_EQ(budget->snapshot().reserved, before + 2 * mebibyte);
  few.reset();
  await([&] { return budget->snapshot().reserved == before; });
  EXPECT_EQ(scripted_plan::alive(), 0);
}

TEST_P(executor_queue, gives_up_plans_for_other_memory) {
  constexpr std::size_t mebibyte = std::size_t{1} << 20U;
  const auto x = words(1);
  const auto large = words(1, mebibyte);  // 4 MiB
  const auto budget = memory_budget::of(runtime().device().id());
  const auto keep_plan_and_limit = [&](std::int64_t key) {
    (void)run(test_executor(), planned{.x = x, .key = key, .device_bytes = 8 * mebibyte});
    const auto charged = budget->snapshot();
    budget->set_limit(charged.held + charged.reserved + mebibyte / 2);
  };
  keep_plan_and_limit(1);
  EXPECT_EQ(first(run(test_executor(), planned{.x = large, .key = 2})), 1U);  // its output
  EXPECT_EQ(test_executor().status().plans.kept, 1U);
  budget->set_limit(memory_budget::unlimited);

  keep_plan_and_limit(3);
  (void)run(test_executor(), planned{.x = x, .key = 4, .workspace_bytes = 4 * mebibyte});
  budget->set_limit(memory_budget::unlimited);

  keep_plan_and_limit(5);
  (void)run(test_executor(), planned{.x = x, .key = 6, .device_bytes = 5 * mebibyte});  // its plan
  EXPECT_EQ(script().begun(6), 2);
  EXPECT_TRUE(throws(errc::over_budget, "", [&] {
    (void)run(test_executor(), planned{.x = x, .key = 7, .device_bytes = 50 * mebibyte});
  }));
  budget->set_limit(memory_budget::unlimited);
  (void)run(test_executor(), planned{.x = x, .key = 1, .device_bytes = 8 * mebibyte});
  EXPECT_EQ(script().begun(1), 2);
}

TEST_P(executor_queue, keeps_its_plans_from_requests_that_can_never_succeed) {
  constexpr std::size_t mebibyte = std::size_t{1} << 20U;
  const auto x = words(1);
  (void)run(test_executor(), planned{.x = x, .key = 1, .device_bytes = 8 * mebibyte});
  const auto budget = memory_budget::of(runtime().device().id());
  const auto charged = budget->snapshot();
  budget->set_limit(charged.held + charged.reserved + mebibyte);
  const auto y = words(0);
  for (const auto& hopeless : {planned{.x = x, .y = y, .key = 2, .workspace_bytes = 50 * mebibyte},
                               planned{.x = x, .y = y, .key = 3, .device_bytes = 50 * mebibyte}}) {
    EXPECT_TRUE(throws(errc::over_budget, "", [&] { (void)run(test_executor(), hopeless); }));
  }
  (void)run(test_executor(), planned{.x = x, .y = y, .key = 1, .device_bytes = 8 * mebibyte});
  EXPECT_EQ(script().begun(1), 1);
  EXPECT_EQ(script().begun(3), 1);
  budget->set_limit(memory_budget::unlimited);
}

TEST_P(executor_queue, holds_imports_that_are_freed_while_a_request_waits) {
  const auto memory = words(1);
  const auto imported = import_dlpack(runtime(), export_dlpack(runtime(), memory));
  script().hold(1);
  auto parked = send({.x = imported, .key = 1}, {.id = 7}, {1});
  auto other = send({.x = imported, .key = 1});
  runtime().deallocate(imported.block());
  test_executor().cancel({1}, 7);
  EXPECT_TRUE(throws(errc::cancelled, "", [&] { (void)parked.get(); }));
  script().open(1);
  EXPECT_TRUE(throws(errc::stale_ref, "", [&] { (void)wait(other); }));
  EXPECT_EQ(test_executor().waiting(), 0U);
}

TEST_P(executor_queue, drops_plans_that_its_owner_has_not_taken) {
  const auto x = words(1);
  auto ending = make_executor();
  script().hold(1);
  // The deadline's alarm holds the mailbox of the executor beyond its end.
  auto parked = submit(*ending, planned{.x = x, .key = 1},
                       {.deadline = timer().now() + std::chrono::hours(1)});
  script().await_begun(1);
  script().open(1);
  await([&] { return scripted_plan::alive() == 1; });
  ending.reset();
  await([&] { return scripted_plan::alive() == 0; });
  EXPECT_TRUE(throws(errc::cancelled, "", [&] { (void)parked.get(); }));
}

TEST_P(executor_queue, makes_no_plan_for_cancelled_requests) {
  const auto x = words(1);
  constexpr request_sender sender{1};
  script().hold(1);
  auto planned_answer = send({.x = x, .key = 1}, {}, sender);
  auto next = send({.x = x, .key = 2}, {}, sender);
  std::vector<pending_answer> waiting;
  for (std::int64_t key = 3; key < 6; ++key) {
    waiting.push_back(send({.x = x, .key = key}, {.id = 7}, sender));
  }
  auto other = send({.x = x, .key = 5}, {}, sender);
  test_executor().cancel(sender, 7);
  for (auto& a : waiting) EXPECT_TRUE(throws(errc::cancelled, "", [&] { (void)a.get(); }));
  script().open(1);
  for (auto* a : {&planned_answer, &next, &other}) EXPECT_EQ(first(wait(*a)), 1U);
  EXPECT_EQ(script().begun(3), 0);
  EXPECT_EQ(script().begun(4), 0);
  EXPECT_EQ(script().begun(5), 1);
  EXPECT_EQ(first(run(test_executor(), planned{.x = x, .key = 3})), 1U);
}

/// A download that waits may find the host tensor made by another one.
TEST_P(executor_queue, counts_the_bytes_of_parameters_that_grow) {
  const auto y = words(0);
  const auto z = words(3);
  const auto result = std::make_shared<host_tensor>();
  script().hold(1);
  auto parked = send({.x = words(1), .y = y, .key = 1});
  auto behind = submit(test_executor(), sluice::download{.x = y, .target = result});
  EXPECT_EQ(test_executor().waiting(), 2U);
  (void)run(test_executor(), sluice::download{.x = z, .target = result});
  EXPECT_EQ(result->to_vector<std::uint32_t>()[0], 3U);
  script().open(1);
  (void)wait(parked);
  (void)wait(behind);
  EXPECT_EQ(result->to_vector<std::uint32_t>()[0], 1U);
  EXPECT_EQ(test_executor().status().bytes, 0U);
}

TEST_P(executor_queue, refuses_plans_beyond_the_limits_of_one) {
  const auto x = words(1);
  const auto small =
      make_executor({.max_host_bytes_of_plan = 1000, .max_device_bytes_of_plan = 2000});
  (void)run(
      *small,
      planned{.x = x, .key = 1, .plan_bytes = 1000, .device_bytes = 500, .workspace_bytes = 1500});
  for (int i = 0; i < 2; ++i) {
    EXPECT_TRUE(throws(errc::unsupported, "executor_options::max_host_bytes_of_plan is 1000",
                       [&] { (void)run(*small, planned{.x = x, .key = 2, .plan_bytes = 1001}); }));
    EXPECT_TRUE(
        throws(errc::unsupported, "executor_options::max_device_bytes_of_plan is 2000", [&] {
          (void)run(*small,
                    planned{.x = x, .key = 3, .device_bytes = 501, .workspace_bytes = 1500});
        }));
  }
  EXPECT_EQ(script().begun(2), 1);
  EXPECT_EQ(script().begun(3), 1);
  await([&] { return small->status().plans.alive == 1; });
}

TEST_P(executor_queue, keeps_no_large_workspace_for_small_launches) {
  const auto x = words(1);
  constexpr std::size_t large = std::size_t{1} << 28U;
  (void)run(test_executor(), planned{.x = x, .key = 1, .workspace_bytes = large});
  EXPECT_GE(runtime().bytes_outstanding(), large);
  for (std::size_t i = 0; i < operations::workspace::period; ++i) {
    (void)run(test_executor(), planned{.x = x, .key = 2});
  }
  (void)run(test_executor(), planned{.x = x, .key = 3, .workspace_bytes = 256});
  await([&] { return runtime().bytes_outstanding() < large; });
}

TEST_P(executor_queue, refuses_requests_beyond_its_bound) {
  const auto small = make_executor({.max_waiting = 3});
  script().hold(1);
  const auto x = words(1);
  std::vector<pending_answer> waiting;
  waiting.reserve(3);
  for (int i = 0; i < 3; ++i) waiting.push_back(submit(*small, planned{.x = x, .key = 1}));
  auto refused = submit(*small, planned{.x = x, .key = 1});
  EXPECT_TRUE(refused.answered());
  EXPECT_TRUE(throws(errc::overloaded, "3 requests wait", [&] { (void)wait(*small, refused); }));
  script().open(1);
  for (auto& a : waiting) (void)wait(*small, a);
}

TEST_P(executor_queue, answers_what_waits_when_it_ends) {
  script().hold(1);
  const auto x = words(1);
  auto ending = make_executor();
  auto planning = submit(*ending, planned{.x = x, .key = 1});
  auto parked = submit(*ending, planned{.x = x, .key = 2});
  script().await_begun(1);
  // The end waits for the plan that is being made, but the answers do not.
  auto end = std::async(std::launch::async, [&] { ending.reset(); });
  for (auto* a : {&planning, &parked}) {
    await([&] { return a->answered(); });
    EXPECT_TRUE(throws(errc::cancelled, "", [&] { (void)a->get(); }));
  }
  script().open(1);
  end.get();
  EXPECT_EQ(script().begun(2), 0);
}

TEST_P(executor_queue, shares_no_memory_with_a_client_that_has_its_answer) {
  const auto x = words(1);
  auto y = words(0);
  for (int i = 0; i < 200; ++i) {
    y = run(test_executor(), planned{.x = x, .y = std::move(y), .key = 1});
    EXPECT_EQ(runtime().statistics().references, 2U);
  }
}

INSTANTIATE_TEST_SUITE_P(devices, executor_queue, ::testing::Values("host"), parameter_name);

}  // namespace
}  // namespace sluice::test
