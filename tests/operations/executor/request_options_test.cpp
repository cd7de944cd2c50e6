// SPDX-License-Identifier: Apache-2.0
// Deadlines, cancellation, priorities and shares of the queue of an executor, at every stage of a
// request.
#include "tests/operations/executing.hpp"
#include "tests/operations/executor/planned_operation.hpp"
#include "tests/support/expect_error.hpp"
#include "tests/support/gate.hpp"
#include "tests/support/instruction_count.hpp"
#include "tests/support/seed.hpp"

#include <sluice/operations/transfer.hpp>

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace sluice::test {
namespace {

using namespace std::chrono_literals;

class request_options_test : public executor_test {
 protected:
  static constexpr request_sender alice{1};
  static constexpr request_sender bob{2};

  tensor words(std::uint32_t value, std::size_t count = 4) {
    return upload(runtime(), stream(), std::vector<std::uint32_t>(count, value));
  }
  std::uint32_t first(const tensor& t) { return download(t.as<std::uint32_t>(), stream())[0]; }
  void make_plan(std::int64_t key) {
    (void)run(test_executor(), planned{.x = words(0), .key = key});
  }
  pending_answer send(planned operation, const request_options& options = {},
                      request_sender sender = {}) {
    return submit(test_executor(), std::move(operation), options, sender);
  }
  [[nodiscard]] request_options until(std::chrono::nanoseconds from_now) {
    return {.deadline = timer().now() + from_now};
  }
  static void expect(errc code, pending_answer& answer) {
    ASSERT_TRUE(answer.answered());
    EXPECT_TRUE(throws(code, "", [&] { (void)answer.get(); }));
  }
  /// Fills the lane with launches that wait for the gate.
  std::vector<pending_answer> fill_lane(gate& closed) {
    make_plan(2);
    closed.hold(test_executor().lane().stream());
    std::vector<pending_answer> answers;
    while (!test_executor().lane().full()) answers.push_back(send({.x = words(1), .key = 2}));
    return answers;
  }
  static constexpr int taken_one_by_one = 20;
  /// Lets `count` requests wait, beside those that `send_one(i)` sends; then calls `take_one(i)`.
  template <class Send, class Take>
  void take_one_by_one(std::size_t count, errc code, const Send& send_one, const Take& take_one) {
    gate closed;
    auto answers = fill_lane(closed);
    std::vector<pending_answer> taken;
    for (std::size_t i = 0; i < count; ++i) {
      auto options = until(1h);
      options.while_alive = true;
      answers.push_back(send({.x = words(1), .key = 2}, options, alice));
    }
    for (int i = 0; i < taken_one_by_one; ++i) taken.push_back(send_one(i));
    for (int i = 0; i < taken_one_by_one; ++i) {
      take_one(i);
      test_executor().work();
      expect(code, taken[static_cast<std::size_t>(i)]);
      EXPECT_EQ(test_executor().waiting(),
                count + static_cast<std::size_t>(taken_one_by_one - 1 - i));
    }
    closed.open();
    for (auto& answer : answers) (void)wait(answer);
  }
  void pass_deadlines(std::size_t count) {
    take_one_by_one(
        count, errc::deadline_exceeded,
        [&](int i) { return send({.x = words(1), .key = 2}, until((i + 1) * 1ms)); },
        [&](int) { timer().advance(1ms); });
  }
  void end_senders(std::size_t count) {
    const auto sender = [](int i) {
      return request_sender{100 + static_cast<std::uint64_t>(i)};
    };
    take_one_by_one(
        count, errc::cancelled,
        [&](int i) { return send({.x = words(1), .key = 2}, {.while_alive = true}, sender(i)); },
        [&](int i) { test_executor().sender_ended(sender(i)); });
  }
  [[nodiscard]] plan_script& script() { return script_; }

 private:
  plan_script script_;
};

TEST_P(request_options_test, a_deadline_that_has_passed_is_refused) {
  auto late = send({.x = words(1), .key = 1}, until(-1ns));
  expect(errc::deadline_exceeded, late);
  EXPECT_EQ(script().begun(1), 0);
}

TEST_P(request_options_test, values_that_do_not_exist_are_refused) {
  const auto x = words(1);
  EXPECT_TRUE(throws(errc::invalid_argument, "priority", [&] {
    (void)run(test_executor(), planned{.x = x, .key = 1},
              {.priority = static_cast<request_priority>(3)});
  }));
  EXPECT_TRUE(throws(errc::invalid_argument, "reply", [&] {
    (void)run(test_executor(), planned{.x = x, .key = 1}, {.reply = static_cast<reply_on>(2)});
  }));
  EXPECT_EQ(script().begun(1), 0);
}

TEST_P(request_options_test, a_request_that_waits_for_its_plan_expires) {
  script().hold(1);
  const auto y = words(7);
  auto expires = send({.x = words(1), .y = y, .key = 1}, until(10ms));
  auto later = send({.x = words(1), .key = 1}, until(20ms));
  auto without = send({.x = words(1), .key = 1});
  EXPECT_EQ(test_executor().waiting(), 3U);
  timer().advance(10ms);
  EXPECT_TRUE(throws(errc::deadline_exceeded, "", [&] { (void)wait(expires); }));
  EXPECT_EQ(test_executor().waiting(), 2U);
  timer().advance(10ms);
  EXPECT_TRUE(throws(errc::deadline_exceeded, "", [&] { (void)wait(later); }));
  script().open(1);
  EXPECT_EQ(first(wait(without)), 1U);
  EXPECT_EQ(first(y), 7U) << "the request never happened";
}

TEST_P(request_options_test, a_request_that_waits_for_room_expires) {
  gate closed;
  auto before = fill_lane(closed);
  const auto y = words(7);
  auto expires = send({.x = words(1), .y = y, .key = 2}, until(10ms));
  auto stays = send({.x = words(1), .key = 2});
  EXPECT_EQ(test_executor().waiting(), 2U);
  timer().advance(10ms);
  EXPECT_TRUE(throws(errc::deadline_exceeded, "", [&] { (void)wait(expires); }));
  EXPECT_EQ(test_executor().waiting(), 1U);
  closed.open();
  for (auto& a : before) (void)wait(a);
  (void)wait(stays);
  EXPECT_EQ(first(y), 7U);
}

TEST_P(request_options_test, a_launch_that_expires_still_writes_its_outputs) {
  make_plan(2);
  const auto y = words(7);
  gate closed;
  closed.hold(test_executor().lane().stream());
  auto expires = send({.x = words(1), .y = y, .key = 2}, until(10ms));
  EXPECT_EQ(test_executor().waiting(), 0U);
  timer().advance(10ms);
  EXPECT_TRUE(throws(errc::deadline_exceeded, "", [&] { (void)wait(expires); }));
  // The output stays fenced: the next request waits on the device.
  auto next = send({.x = words(0), .y = y, .key = 2});
  closed.open();
  EXPECT_EQ(first(wait(next)), 30U);
}

TEST_P(request_options_test, a_deadline_after_the_answer_changes_nothing) {
  make_plan(2);
  auto answered = send({.x = words(1), .key = 2}, until(10ms));
  const auto y = wait(answered);
  timer().advance(10ms);
  test_executor().work();
  EXPECT_EQ(first(y), 1U);
}

TEST_P(request_options_test, only_the_sender_cancels_its_requests) {
  script().hold(1);
  auto mine = send({.x = words(1), .key = 1}, {.id = 5}, alice);
  auto mine_too = send({.x = words(1), .key = 1}, {.id = 5}, alice);
  auto other_id = send({.x = words(1), .key = 1}, {.id = 6}, alice);
  auto without_id = send({.x = words(1), .key = 1}, {}, alice);
  auto others = send({.x = words(1), .key = 1}, {.id = 5}, bob);
  test_executor().cancel(alice, 5);
  test_executor().cancel(alice, 7);
  test_executor().cancel(alice, 0);
  test_executor().cancel({3}, 5);
  expect(errc::cancelled, mine);
  expect(errc::cancelled, mine_too);
  EXPECT_EQ(test_executor().waiting(), 3U);
  script().open(1);
  for (auto* a : {&other_id, &without_id, &others}) EXPECT_EQ(first(wait(*a)), 1U);
}

TEST_P(request_options_test, cancels_those_of_many_requests_that_have_the_id) {
  script().hold(1);
  const auto x = words(1);
  std::vector<pending_answer> answers;
  for (std::uint64_t i = 0; i < 3000; ++i) {
    answers.push_back(send({.x = x, .key = 1}, {.id = i / 2 + 1}, i % 3 == 0 ? alice : bob));
  }
  for (std::uint64_t id = 1; id <= 1500; id += 2) test_executor().cancel(alice, id);
  script().open(1);
  for (std::uint64_t i = 0; i < answers.size(); ++i) {
    if (i % 3 == 0 && (i / 2 + 1) % 2 == 1) {
      expect(errc::cancelled, answers[i]);
    } else {
      (void)wait(answers[i]);
    }
  }
}

TEST_P(request_options_test, a_launch_that_is_cancelled_still_writes_its_outputs) {
  make_plan(2);
  const auto y = words(7);
  gate closed;
  closed.hold(test_executor().lane().stream());
  auto cancelled = send({.x = words(1), .y = y, .key = 2}, {.id = 5}, alice);
  test_executor().cancel(alice, 5);
  expect(errc::cancelled, cancelled);
  auto next = send({.x = words(0), .y = y, .key = 2});
  closed.open();
  EXPECT_EQ(first(wait(next)), 30U);
}

TEST_P(request_options_test, cancelling_lets_requests_behind_go_on) {
  make_plan(2);
  script().hold(1);
  const auto y = words(7);
  auto parked = send({.x = words(1), .y = y, .key = 1}, {.id = 5}, alice);
  auto behind = send({.x = words(1), .y = y, .key = 2});
  EXPECT_EQ(test_executor().waiting(), 2U);
  test_executor().cancel(alice, 5);
  expect(errc::cancelled, parked);
  EXPECT_EQ(first(wait(behind)), 15U);
  script().open(1);
}

TEST_P(request_options_test, drops_what_a_client_waits_for_that_has_ended) {
  script().hold(1);
  auto dropped = send({.x = words(1), .key = 1}, {.while_alive = true}, alice);
  auto stays = send({.x = words(1), .key = 1}, {}, alice);
  auto others = send({.x = words(1), .key = 1}, {.while_alive = true}, bob);
  test_executor().sender_ended(alice);
  expect(errc::cancelled, dropped);
  script().open(1);
  (void)wait(stays);
  (void)wait(others);
}

// Deadlines that pass one by one, and senders that end one by one, while others wait.
TEST_P(request_options_test, leaves_the_queue_among_few) {
  pass_deadlines(64);
  end_senders(64);
}
TEST_P(request_options_test, leaves_the_queue_among_many) {
  pass_deadlines(512);
  end_senders(512);
}

// The requests that wait are not visited.
TEST_P(request_options_test, leaving_the_queue_costs_no_more_among_many) {
  SLUICE_REQUIRE_INSTRUCTION_COUNT();
  const auto count = [](const std::string& name) {
    return count_instructions("devices/request_options_test." + name + "/host",
                              "sluice::operations::request_queue::take_e*");
  };
  const auto few = count("leaves_the_queue_among_few");
  const auto many = count("leaves_the_queue_among_many");
  ASSERT_TRUE(few && many);
  EXPECT_GT(*few, 0U);
  // A map of eight times the entries is three levels deeper.
  EXPECT_LE(*many, 2 * *few);
}

// The search for a request to launch is bounded, but it never misses the one that all others wait
// for.
TEST_P(request_options_test, a_low_priority_never_waits_for_those_that_wait_for_it) {
  gate closed;
  auto answers = fill_lane(closed);
  const auto x = words(1);
  answers.push_back(
      send({.x = words(1), .y = x, .key = 2}, {.priority = request_priority::low}, alice));
  for (const auto priority : {request_priority::high, request_priority::normal}) {
    for (int i = 0; i < 100; ++i) {
      answers.push_back(send({.x = x, .key = 2}, {.priority = priority}, bob));
    }
  }
  closed.open();
  for (auto& a : answers) (void)wait(a);
}

TEST_P(request_options_test, the_bytes_of_a_tag_count) {
  const auto small = make_executor({.max_waiting_bytes = 1 << 20U});
  script().hold(1);
  const auto x = words(1);
  auto waiting =
      submit(*small, planned{.x = x, .key = 1}, {.tag = std::string(1 << 19U, 't')}, bob);
  EXPECT_GT(small->status().bytes, 1U << 19U);
  auto refused =
      submit(*small, planned{.x = x, .key = 1}, {.tag = std::string(1 << 19U, 't')}, bob);
  expect(errc::overloaded, refused);
  script().open(1);
  (void)wait(*small, waiting);
}

TEST_P(request_options_test, an_executor_has_one_entry_in_the_timer) {
  const auto before = timer().waiting();
  script().hold(1);
  std::vector<pending_answer> answers;
  for (int i = 100; i > 0; --i) {
    answers.push_back(send({.x = words(1), .key = 1}, until(std::chrono::hours(i))));
  }
  EXPECT_EQ(timer().waiting(), before + 1);
  {
    const auto other = make_executor();
    answers.push_back(submit(*other, planned{.x = words(1), .key = 1}, until(1h)));
    EXPECT_EQ(timer().waiting(), before + 2);
    script().open(1);
  }
  EXPECT_EQ(timer().waiting(), before + 1);
  for (auto& a : answers) {
    if (&a != &answers.back()) (void)wait(a);
  }
}

TEST_P(request_options_test, launches_by_priority_and_then_by_arrival) {
  gate closed;
  auto before = fill_lane(closed);
  const auto y = words(0);
  // Each doubles y and adds its digit: the order is in the sum. They have hazards with each other
  // only in pairs.
  std::vector<std::uint32_t> order;
  const auto note = [&](std::uint32_t digit, request_priority priority) {
    test_executor().submit(
        planned{.x = words(1), .key = 2}, {.priority = priority},
        reply_token<tensor>::from([&order, digit](const tensor&) { order.push_back(digit); },
                                  [](const error&) { ADD_FAILURE(); }));
  };
  note(1, request_priority::low);
  note(2, request_priority::normal);
  note(3, request_priority::high);
  note(4, request_priority::normal);
  note(5, request_priority::high);
  auto last = send({.x = words(1), .key = 2}, {.priority = request_priority::low});
  closed.open();
  for (auto& a : before) (void)wait(a);
  (void)wait(last);
  EXPECT_EQ(order, (std::vector<std::uint32_t>{3, 5, 2, 4, 1}));
}

TEST_P(request_options_test, senders_take_turns) {
  gate closed;
  auto before = fill_lane(closed);
  std::vector<std::uint32_t> order;
  std::atomic<std::size_t> answered{0};
  const auto note = [&](std::uint32_t digit, request_sender sender, std::int64_t key = 2) {
    test_executor().submit(planned{.x = words(1), .key = key}, {},
                           reply_token<tensor>::from(
                               [&order, &answered, digit](const tensor&) {
                                 order.push_back(digit);
                                 ++answered;
                               },
                               [](const error&) { ADD_FAILURE(); }),
                           sender);
  };
  constexpr request_sender carol{3};
  script().hold(1);
  note(1, alice, 1);  // has no plan yet
  for (const std::uint32_t digit : {2, 3, 4, 5}) note(digit, alice);
  for (const std::uint32_t digit : {6, 7}) note(digit, bob);
  note(8, carol);
  closed.open();
  for (auto& a : before) (void)wait(a);
  await([&] {
    test_executor().work();
    return answered == 7;
  });
  EXPECT_EQ(order, (std::vector<std::uint32_t>{2, 6, 8, 3, 7, 4, 5}));
  script().open(1);
  await([&] {
    test_executor().work();
    return answered == 8;
  });
  EXPECT_EQ(order.back(), 1U);
}

TEST_P(request_options_test, a_priority_does_not_pass_a_hazard) {
  make_plan(2);
  script().hold(1);
  const auto y = words(0);
  auto parked = send({.x = words(1), .y = y, .key = 1}, {.priority = request_priority::low});
  auto urgent = send({.x = words(5), .y = y, .key = 2}, {.priority = request_priority::high});
  EXPECT_EQ(test_executor().waiting(), 2U);
  script().open(1);
  (void)wait(parked);
  EXPECT_EQ(first(wait(urgent)), 7U);
}

// All requests use parts of one block, so that only their bytes tell which may pass which.
TEST_P(request_options_test, many_requests_on_parts_of_one_block_keep_the_order_of_their_hazards) {
  constexpr std::uint32_t count = 4;
  constexpr std::uint32_t size = 300;
  auto generator = make_generator();
  gate closed;
  auto before = fill_lane(closed);
  const auto block = words(1, size);
  std::vector<std::uint32_t> expected(size, 1);
  std::vector<pending_answer> answers;
  for (int i = 0; i < 4000; ++i) {
    const auto begin = static_cast<std::uint32_t>(generator() % (size - count));
    const auto added = static_cast<std::uint32_t>(generator() % 5);
    for (std::uint32_t index = begin; index < begin + count; ++index) {
      expected[index] = 2 * expected[index] + added;
    }
    answers.push_back(send({.x = words(added), .y = block.slice(0, begin, begin + count), .key = 2},
                           {.priority = static_cast<request_priority>(generator() % 3)}));
  }
  closed.open();
  for (auto& a : before) (void)wait(a);
  for (auto& a : answers) (void)wait(a);
  EXPECT_EQ(download(block.as<std::uint32_t>(), stream()), expected);
}

TEST_P(request_options_test, no_sender_takes_more_than_its_share) {
  const auto small = make_executor({.max_waiting = 10, .max_waiting_of_sender = 4});
  script().hold(1);
  const auto x = words(1);
  std::vector<pending_answer> waiting;
  for (int i = 0; i < 4; ++i)
    waiting.push_back(submit(*small, planned{.x = x, .key = 1}, {}, alice));
  auto refused = submit(*small, planned{.x = x, .key = 1}, {}, alice);
  expect(errc::overloaded, refused);
  for (int i = 0; i < 4; ++i) waiting.push_back(submit(*small, planned{.x = x, .key = 1}, {}, bob));
  EXPECT_EQ(small->waiting(), 8U);
  script().open(1);
  for (auto& a : waiting) (void)wait(*small, a);
  // The share is free again.
  auto again = submit(*small, planned{.x = x, .key = 1}, {}, alice);
  (void)wait(*small, again);
}

TEST_P(request_options_test, bounds_the_bytes_of_waiting_requests) {
  script().hold(1);
  const auto x = words(1);
  auto answer = send({.x = x, .key = 1});
  const auto bytes = test_executor().status().bytes;
  EXPECT_GT(bytes, sizeof(planned));
  const auto small = make_executor({.max_waiting_bytes = 3 * bytes});
  std::vector<pending_answer> waiting;
  for (int i = 0; i < 3; ++i) waiting.push_back(submit(*small, planned{.x = x, .key = 1}));
  auto refused = submit(*small, planned{.x = x, .key = 1});
  expect(errc::overloaded, refused);
  // One alone is never too large.
  const auto smallest = make_executor({.max_waiting_bytes = 1});
  auto alone = submit(*smallest, planned{.x = x, .key = 1});
  EXPECT_FALSE(alone.answered());
  script().open(1);
  (void)wait(answer);
  for (auto& a : waiting) (void)wait(*small, a);
  (void)wait(*smallest, alone);
}

TEST_P(request_options_test, no_sender_takes_more_than_its_share_of_the_bytes) {
  script().hold(1);
  const auto x = words(1);
  auto answer = send({.x = x, .key = 1});
  const auto bytes = test_executor().status().bytes;
  const auto small = make_executor({.max_waiting_bytes = 4 * bytes});
  std::vector<pending_answer> waiting;
  const auto send_to_small = [&](request_sender sender) {
    return submit(*small, planned{.x = x, .key = 1}, {}, sender);
  };
  for (const auto sender : {alice, alice, bob, bob}) {
    waiting.push_back(send_to_small(sender));
    EXPECT_FALSE(waiting.back().answered());
    if (waiting.size() == 2) {
      auto refused = send_to_small(alice);
      expect(errc::overloaded, refused);
    }
  }
  script().open(1);
  (void)wait(answer);
  for (auto& a : waiting) (void)wait(*small, a);
  // The share is free again.
  auto again = send_to_small(alice);
  (void)wait(*small, again);
}

TEST_P(request_options_test, a_large_request_leaves_room_for_other_senders) {
  const auto small = make_executor({.max_waiting_bytes = 8192});
  const auto y = words(0);
  gate closed;
  closed.hold(small->lane().stream());
  std::vector<pending_answer> before;
  while (!small->lane().full()) before.push_back(submit(*small, sluice::fill{.value = 1, .y = y}));
  const auto send_upload = [&](std::size_t bytes, request_sender sender) {
    return submit(*small, sluice::upload{.values = std::vector<std::uint8_t>(bytes, 7)}, {},
                  sender);
  };
  auto large = send_upload(100'000, alice);
  EXPECT_FALSE(large.answered());
  auto refused = send_upload(1, alice);
  expect(errc::overloaded, refused);
  auto others = send_upload(1, bob);
  EXPECT_FALSE(others.answered());
  EXPECT_GT(small->status().bytes, 100'000U);
  closed.open();
  for (auto* a : {&large, &others}) EXPECT_EQ(wait(*small, *a).type(), element_type::u8);
  for (auto& a : before) (void)wait(*small, a);
  EXPECT_EQ(small->status().bytes, 0U);
}

TEST_P(request_options_test, tells_how_long_requests_wait) {
  EXPECT_EQ(test_executor().status().requests, 0U);
  make_plan(2);
  script().hold(1);
  const auto y = words(0);
  auto parked = send({.x = words(1), .y = y, .key = 1});
  timer().advance(30ms);
  auto behind = send({.x = words(1), .y = y, .key = 2});
  timer().advance(10ms);
  const auto s = test_executor().status();
  EXPECT_EQ(s.requests, 2U);
  EXPECT_EQ(s.planning, 1U);
  EXPECT_EQ(s.oldest, 40ms);
  script().open(1);
  (void)wait(parked);
  (void)wait(behind);
  EXPECT_EQ(test_executor().status().requests, 0U);
  EXPECT_EQ(test_executor().status().bytes, 0U);
}

INSTANTIATE_TEST_SUITE_P(devices, request_options_test, ::testing::Values("host"), parameter_name);

}  // namespace
}  // namespace sluice::test
