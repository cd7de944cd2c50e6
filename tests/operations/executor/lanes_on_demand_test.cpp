// SPDX-License-Identifier: Apache-2.0
// Lanes of one actor that are opened while there is work for them: the choice, and the executors
// that make the plans of each other and share limits.
#include "operations/executor/known_plans.hpp"
#include "tests/operations/executing.hpp"
#include "tests/operations/executor/planned_operation.hpp"
#include "tests/support/expect_error.hpp"
#include "tests/support/gate.hpp"

#include <sluice/operations/lane_choice.hpp>
#include <sluice/runtime/memory_budget.hpp>

#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <vector>

namespace sluice::test {
namespace {

using standing = detail::lane_choice::standing;
using shared_plans = executor::shared_plans;

/// One lane, two more on demand, and one for high priority on demand. A test plays the lanes.
class lanes_on_demand : public ::testing::Test {
 protected:
  static constexpr std::size_t ordinary = 3;
  static constexpr std::size_t high = 3;
  static constexpr std::size_t crowd = 100;
  static constexpr std::uint64_t waiting_sender = 1U << 19U;

  lanes_on_demand() {
    choice().on_wanted([this] { ++wanted; });
    for (std::size_t i = 0; i < ordinary + 1; ++i) lanes.emplace_back(choice_, i);
  }
  detail::lane_choice& choice() { return *choice_; }
  std::size_t route(std::uint64_t sender, request_priority priority = request_priority::normal) {
    return choice().route({sender}, priority, nullptr, [](std::size_t lane) { return lane; });
  }
  /// Messages of so many senders that have not been seen before, and of whom none is handled.
  void send_of_others(std::size_t senders) {
    for (std::size_t i = 0; i < senders; ++i) (void)route(++last_sender_ << 20U);
  }
  void handle(std::size_t lane, std::uint64_t sender) {
    lanes[lane].note_handled({sender});
    lanes[lane].publish(false);
  }
  /// The first lane handles a message of sender 1, and then has `unfinished` launches on its
  /// device.
  void handle_with_device(std::size_t unfinished, std::uint64_t dependent = 0) {
    lanes[0].note_handled({1});
    lanes[0].note_device(unfinished, dependent);
    lanes[0].publish(false);
  }
  /// Requests wait in front of a lane, or have left it.
  ///@{
  void add_waiting(std::size_t lane) {
    for (int i = 0; i < 2; ++i) lanes[lane].note_added({waiting_sender});
  }
  void drop_waiting(std::size_t lane) {
    for (int i = 0; i < 2; ++i) lanes[lane].note_left({waiting_sender});
  }
  ///@}
  void open(std::size_t lane) {
    ASSERT_TRUE(choice().prepare(lane));
    choice().open(lane);
    ASSERT_EQ(choice().standing_of(lane), standing::open);
  }
  /// A lane has made a plan.
  void make_plan() {
    operations::plan_job job;
    job.key.bytes = std::to_string(++plans_);
    choice().plans().add(job, nullptr);
  }

  int wanted = 0;
  std::deque<detail::lane_choice::lane> lanes;

 private:
  std::shared_ptr<detail::lane_choice> choice_ =
      std::make_shared<detail::lane_choice>(ordinary + 1, 1, 1);
  std::uint64_t last_sender_ = 0;
  int plans_ = 0;
};

TEST_F(lanes_on_demand, are_closed_while_one_sender_waits_for_its_own_messages) {
  for (std::size_t i = 0; i < 10 * crowd; ++i) EXPECT_EQ(route(1), 0U);
  EXPECT_EQ(wanted, 0);
}

TEST_F(lanes_on_demand, are_homes_of_programs_while_they_are_open) {
  const int program = 0;
  std::uint64_t sender = 0;
  const auto lane_of_run = [&] {
    return choice().route({++sender}, request_priority::normal, &program,
                          [](std::size_t lane) { return lane; });
  };
  send_of_others(crowd);
  ASSERT_EQ(wanted, 1);
  open(1);
  lanes[1].note_home(&program);
  EXPECT_EQ(lane_of_run(), 1U);
  choice().close(1);
  EXPECT_EQ(lane_of_run(), 0U);
}

TEST_F(lanes_on_demand, are_wanted_once_for_a_device_that_is_behind) {
  for (std::size_t i = 0; i < 10 * crowd; ++i) {
    EXPECT_EQ(route(1), 0U);
    handle_with_device(4);
  }
  EXPECT_EQ(wanted, 1);
  open(1);
  for (std::size_t i = 0; i < 10 * crowd; ++i) handle_with_device(4);
  EXPECT_EQ(wanted, 1) << "one lane beside it is enough";
}

TEST_F(lanes_on_demand, are_closed_for_launches_that_follow_each_other) {
  for (std::size_t i = 0; i < 10 * crowd; ++i) {
    EXPECT_EQ(route(1), 0U);
    handle_with_device(4, i);
  }
  EXPECT_EQ(wanted, 0);
}

TEST_F(lanes_on_demand, are_closed_for_a_device_that_is_seldom_behind) {
  for (std::size_t i = 0; i < 10 * crowd; ++i) {
    EXPECT_EQ(route(1), 0U);
    handle_with_device(i % 3 != 0 ? 4 : 2);
  }
  EXPECT_EQ(wanted, 0);
}

TEST_F(lanes_on_demand, are_closed_while_senders_take_turns) {
  for (std::uint64_t i = 0; i < 10 * crowd; ++i) {
    EXPECT_EQ(route(i), 0U);
    handle(0, i);
  }
  EXPECT_EQ(wanted, 0);
}

TEST_F(lanes_on_demand, are_not_wanted_for_plans_that_are_being_made) {
  for (std::uint64_t i = 0; i < 10 * crowd; ++i) {
    make_plan();
    EXPECT_EQ(route(i), 0U);
    handle(0, i);
  }
  EXPECT_EQ(wanted, 0);
}

TEST_F(lanes_on_demand, are_not_wanted_for_one_request_that_waits_for_its_plan) {
  for (std::uint64_t i = 0; i < 10 * crowd; ++i) {
    EXPECT_EQ(route(i), 0U);
    lanes[0].note_added({i});
    lanes[0].note_handled({i});
    lanes[0].publish(true);
    lanes[0].note_left({i});
    lanes[0].publish(false);
  }
  EXPECT_EQ(wanted, 0);
}

TEST_F(lanes_on_demand, are_not_wanted_for_a_client_that_sends_before_the_lane_is_ready) {
  (void)route(0);
  for (std::uint64_t i = 0; i < 10 * crowd; ++i) {
    EXPECT_EQ(route(i + 1), 0U);
    lanes[0].note_handled({i});
    lanes[0].publish(true);
  }
  EXPECT_EQ(wanted, 0);
}

TEST_F(lanes_on_demand, are_wanted_once_while_senders_wait_for_each_other) {
  send_of_others(crowd);
  EXPECT_EQ(wanted, 1);
  EXPECT_EQ(choice().standing_of(1), standing::wanted);
  send_of_others(crowd);
  EXPECT_EQ(wanted, 1) << "one is being prepared";
  EXPECT_EQ(choice().standing_of(2), standing::closed);
  open(1);
  EXPECT_EQ(route(7), 1U);
  send_of_others(10 * crowd);
  EXPECT_EQ(wanted, 2);
  EXPECT_EQ(choice().standing_of(2), standing::wanted);
}

TEST_F(lanes_on_demand, relieve_a_lane_that_several_senders_keep_busy) {
  const auto work = [&](std::size_t lane, std::uint64_t sender, int messages) {
    for (int i = 0; i < messages; ++i) {
      ASSERT_EQ(route(sender), lane);
      lanes[lane].note_handled({sender});
      lanes[lane].publish(true);
    }
  };
  add_waiting(0);
  work(0, 1, 1000);
  EXPECT_EQ(wanted, 0) << "one sender";
  for (int i = 0; i < 200 && wanted == 0; ++i) work(0, 1 + i % 3, 1);
  ASSERT_EQ(wanted, 1);
  open(1);
  EXPECT_EQ(route(3), 1U);
  add_waiting(1);
  for (int i = 0; i < 200; ++i) {
    lanes[1].note_handled({3});
    lanes[1].publish(true);
    ASSERT_EQ(route(3), 1U) << "one sender keeps no lane busy";
  }
  // The two others keep the first lane busy, until one of them moves, too.
  std::uint64_t moved = 0;
  for (int i = 0; i < 200 && moved == 0; ++i) {
    const std::uint64_t sender = 1 + i % 2;
    const auto lane = route(sender);
    if (lane == 1) moved = sender;
    lanes[lane].note_handled({sender});
    lanes[lane].publish(true);
  }
  ASSERT_NE(moved, 0U);
  drop_waiting(0);
  for (int i = 0; i < 200; ++i) {
    ASSERT_EQ(route(3 - moved), 0U);
    lanes[0].note_handled({3 - moved});
    lanes[0].publish(true);
  }
}

TEST_F(lanes_on_demand, want_no_other_while_senders_leave_the_lane_pauses) {
  for (std::uint64_t i = 0; i < 1000; ++i) {
    ASSERT_EQ(route(i % 3), 0U);
    if (i % 4 == 0) add_waiting(0);
    lanes[0].note_handled({i % 3});
    lanes[0].publish(true);
    if (i % 4 == 0) drop_waiting(0);
  }
  EXPECT_EQ(wanted, 0);
}

TEST_F(lanes_on_demand, take_no_sender_before_they_have_all_plans) {
  send_of_others(crowd);
  open(1);
  make_plan();
  lanes[0].note_plans(1);
  EXPECT_EQ(route(7), 0U);
  lanes[1].note_plans(1);
  EXPECT_EQ(route(8), 1U);
  EXPECT_EQ(route(7), 0U) << "its message waits there";
}

TEST_F(lanes_on_demand, lose_their_senders_when_they_are_closed) {
  send_of_others(crowd);
  open(1);
  EXPECT_EQ(route(7), 1U);
  choice().close(1);
  EXPECT_EQ(route(7), 1U) << "its message waits there";
  EXPECT_TRUE(lanes[1].has_work());
  handle(1, 7);
  handle(1, 7);
  EXPECT_FALSE(lanes[1].has_work());
  EXPECT_EQ(route(7), 0U);
}

TEST_F(lanes_on_demand, are_not_wanted_again_soon_after_a_failure) {
  send_of_others(crowd);
  ASSERT_TRUE(choice().prepare(1));
  choice().close(1, true);
  send_of_others(10 * crowd);
  EXPECT_EQ(wanted, 1);
  add_waiting(0);
  for (std::size_t i = 0; i < 10 * crowd; ++i) {
    (void)route(1 + i % 3);
    lanes[0].note_handled({1 + i % 3});
    lanes[0].publish(true);
    EXPECT_LT(route(50 + i, request_priority::high), high) << "it could not be opened either";
  }
  EXPECT_EQ(wanted, 1);
}

TEST_F(lanes_on_demand, are_closed_while_plans_of_the_first_lane_leave_no_room) {
  send_of_others(crowd);
  open(1);
  choice().limit_on_demand(0);
  EXPECT_EQ(choice().standing_of(1), standing::closed);
  send_of_others(crowd);
  EXPECT_EQ(wanted, 1);
  choice().limit_on_demand(1);
  send_of_others(crowd);
  EXPECT_EQ(wanted, 2);
  open(1);
  send_of_others(10 * crowd);
  EXPECT_EQ(wanted, 2);
}

TEST_F(lanes_on_demand, keep_the_last_room_for_high_priority) {
  send_of_others(crowd);
  open(1);
  choice().limit_on_demand(1);
  EXPECT_EQ(choice().standing_of(1), standing::open);
  EXPECT_EQ(route(7, request_priority::high), high);
  EXPECT_EQ(wanted, 2);
  EXPECT_EQ(choice().standing_of(1), standing::closed) << "its place is taken";
  choice().limit_on_demand(2);
  send_of_others(10 * crowd);
  open(1);
  choice().limit_on_demand(1);
  EXPECT_EQ(choice().standing_of(1), standing::closed) << "ordinary lanes close first";
  EXPECT_EQ(choice().standing_of(high), standing::wanted);
}

// Otherwise each one that has made its plans would be one too many, and be wanted again.
TEST(lane_choices, want_no_second_lane_for_high_priority_without_room) {
  constexpr std::size_t first_high = 2;
  detail::lane_choice choice(4, 2, 1);
  int wanted = 0;
  choice.on_wanted([&] { ++wanted; });
  choice.limit_on_demand(1);
  const auto route = [&](std::uint64_t sender) {
    return choice.route({sender}, request_priority::high, nullptr,
                        [](std::size_t lane) { return lane; });
  };
  (void)route(1);
  ASSERT_TRUE(choice.prepare(first_high));
  choice.open(first_high);
  for (std::uint64_t i = 2; i < 500; ++i) (void)route(i << 20U);
  EXPECT_EQ(wanted, 1);
  EXPECT_EQ(choice.standing_of(first_high), standing::open);
}

TEST_F(lanes_on_demand, take_messages_of_high_priority_from_the_first_one) {
  EXPECT_EQ(route(7, request_priority::high), 0U) << "nobody waits there";
  EXPECT_EQ(choice().standing_of(high), standing::wanted);
  handle(0, 7);
  send_of_others(8);
  EXPECT_EQ(route(8, request_priority::high), high) << "others wait on the ordinary lane";
  open(high);
  EXPECT_EQ(route(7, request_priority::high), high);
  EXPECT_EQ(route(9), 0U);
}

/// Two executors of this thread that are the lanes of one choice.
class joined_executors : public executor_test {
 protected:
  void SetUp() override {
    executor_test::SetUp();
    first_ = join(0);
    second_ = join(1);
  }
  void TearDown() override {
    second_.reset();
    first_.reset();
    executor_test::TearDown();
  }
  [[nodiscard]] std::unique_ptr<executor> join(std::size_t number, executor_options options = {}) {
    options.max_waiting = 3;
    options.max_waiting_of_sender = 3;
    auto executor = make_executor(options);
    if (lanes_.size() <= number) lanes_.emplace_back(choice_, number);
    executor->join_lanes(lanes_[number]);
    return executor;
  }
  void replace_second(executor_options options) {
    second_.reset();
    second_ = join(1, options);
  }
  [[nodiscard]] tensor words() {
    return tensor(upload(runtime(), stream(), std::vector<std::uint32_t>(4)).block(),
                  element_type::u32, {4});
  }
  executor& first() { return *first_; }
  executor& second() { return *second_; }
  plan_script& script() { return script_; }
  detail::lane_choice& choice() { return *choice_; }

 private:
  plan_script script_;
  std::shared_ptr<detail::lane_choice> choice_ = std::make_shared<detail::lane_choice>(2, 0, 1);
  std::deque<detail::lane_choice::lane> lanes_;
  std::unique_ptr<executor> first_;
  std::unique_ptr<executor> second_;
};

TEST_P(joined_executors, make_the_plans_of_each_other) {
  const auto x = words();
  (void)run(first(), planned{.x = x, .key = 1});
  (void)run(first(), planned{.x = x, .key = 1});
  await([&] {
    second().work();
    return second().plans_of_other_lanes() == shared_plans::made;
  });
  EXPECT_EQ(script().begun(1), 2);
  script().hold(1);  // a further plan would not be made
  (void)run(second(), planned{.x = x, .key = 1});
  EXPECT_EQ(script().begun(1), 2);
  first().work();
  EXPECT_EQ(first().plans_of_other_lanes(), shared_plans::made);
  EXPECT_EQ(script().begun(1), 2);
}

TEST_P(joined_executors, lack_plans_that_exceed_their_share_or_cannot_be_made) {
  const auto x = words();
  replace_second({.max_plan_bytes = 1 << 16});
  (void)run(first(), planned{.x = x, .key = 1, .plan_bytes = 1 << 17});
  await([&] {
    second().work();
    return second().plans_of_other_lanes() == shared_plans::unavailable;
  });
  EXPECT_EQ(script().begun(1), 1);
  replace_second({});
  await([&] {
    second().work();
    return second().plans_of_other_lanes() == shared_plans::made;
  });
  EXPECT_EQ(script().begun(1), 2) << "those that were made before it came";
  script().hold(2);
  auto answer = submit(first(), planned{.x = x, .key = 2});
  script().await_begun(2);
  script().open(2);
  (void)wait(first(), answer);
  script().fail(2, errc::library_failure);
  await([&] {
    second().work();
    return second().plans_of_other_lanes() == shared_plans::unavailable;
  });
  EXPECT_EQ(script().begun(2), 2);
}

TEST_P(joined_executors, are_closed_if_they_are_on_demand_and_find_no_memory) {
  const auto x = words();
  const auto budget = memory_budget::of(runtime().device().id());
  const auto run_out_of_memory = [&](executor& e, std::int64_t key) {
    const auto charged = budget->snapshot();
    budget->set_limit(charged.held + charged.reserved + (std::size_t{1} << 20U));
    EXPECT_TRUE(throws(errc::over_budget, "", [&] {
      (void)run(e, planned{.x = x, .key = key, .workspace_bytes = std::size_t{50} << 20U});
    }));
    budget->set_limit(memory_budget::unlimited);
  };
  const auto await_plans_of_second = [&](shared_plans state) {
    await([&] {
      second().work();
      return second().plans_of_other_lanes() == state;
    });
  };
  run_out_of_memory(first(), 1);
  await_plans_of_second(shared_plans::made);
  EXPECT_EQ(first().plans_of_other_lanes(), shared_plans::made);
  run_out_of_memory(second(), 2);
  await_plans_of_second(shared_plans::unavailable);
}

TEST_P(joined_executors, share_the_limits_of_their_queues) {
  const auto x = words();
  script().hold(1);
  std::vector<pending_answer> waiting;
  waiting.push_back(submit(first(), planned{.x = x, .key = 1}, {}, {1}));
  waiting.push_back(submit(first(), planned{.x = x, .key = 1}, {}, {1}));
  waiting.push_back(submit(second(), planned{.x = x, .key = 1}, {}, {2}));
  auto refused = submit(second(), planned{.x = x, .key = 1}, {}, {3});
  EXPECT_TRUE(refused.answered());
  EXPECT_TRUE(throws(errc::overloaded, "3 requests wait", [&] { (void)refused.get(); }));
  script().open(1);
  (void)wait(first(), waiting[0]);
  (void)wait(first(), waiting[1]);
  (void)wait(second(), waiting[2]);
}

TEST_P(joined_executors, close_the_others_while_the_first_needs_their_room) {
  const auto x = words();
  (void)run(first(), planned{.x = x, .key = 1, .plan_bytes = std::size_t{3} << 26U});
  for (std::uint64_t sender = 1; sender < 1000; ++sender) {
    (void)choice().route({sender << 20U}, request_priority::normal, nullptr,
                         [](std::size_t) { return 0; });
  }
  EXPECT_EQ(choice().standing_of(1), standing::closed);
}

INSTANTIATE_TEST_SUITE_P(devices, joined_executors, ::testing::Values("host"), parameter_name);

}  // namespace
}  // namespace sluice::test
