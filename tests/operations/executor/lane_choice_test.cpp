// SPDX-License-Identifier: Apache-2.0
#include "tests/support/seed.hpp"

#include <sluice/operations/lane_choice.hpp>

#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <new>
#include <optional>
#include <random>
#include <thread>
#include <vector>

namespace sluice::test {
namespace {

/// A choice whose lanes a test plays.
class lane_choice : public ::testing::Test {
 protected:
  /// The lane of the next message of a sender.
  std::size_t route(std::uint64_t sender, request_priority priority = request_priority::normal,
                    const void* program = nullptr) {
    return choice_->route({sender}, priority, program, [](std::size_t lane) { return lane; });
  }
  void fail_to_send(std::uint64_t sender) {
    choice_->route({sender}, request_priority::normal, nullptr,
                   [](std::size_t) { throw std::bad_alloc(); });
  }
  /// A lane handles a message and leaves `waiting` requests of it in its queue.
  void handle(std::size_t lane, std::uint64_t sender, int waiting = 0, bool awake = false) {
    for (int i = 0; i < waiting; ++i) lanes_[lane].note_added({sender});
    lanes_[lane].note_handled({sender});
    lanes_[lane].publish(awake);
  }
  /// A lane launches requests that wait.
  void launch(std::size_t lane, std::uint64_t sender, int requests) {
    for (int i = 0; i < requests; ++i) lanes_[lane].note_left({sender});
    lanes_[lane].publish(false);
  }
  /// A lane launches the request of a message, and then has `unfinished` launches on its device.
  /// `dependent` of all have had a hazard with an unfinished one.
  void handle_with_device(std::size_t lane, std::uint64_t sender, std::size_t unfinished,
                          std::uint64_t dependent = 0) {
    lanes_[lane].note_handled({sender});
    lanes_[lane].note_device(unfinished, dependent);
    lanes_[lane].publish(false);
  }
  /// A lane runs a program whose runs are to come to one lane.
  void note_home(std::size_t lane, const void* program) { lanes_[lane].note_home(program); }
  /// Has the device fall behind with the launches of a sender of lane 0, and keeps lane 1 ready.
  void make_heavy(std::uint64_t sender) {
    for (int i = 0; i < 33; ++i) {
      ASSERT_EQ(route(sender), 0U);
      handle_with_device(0, sender, 4);
    }
    ASSERT_EQ(route(sender), 0U);
    handle_with_device(0, sender, 4);
  }
  void publish(std::size_t lane, bool awake) { lanes_[lane].publish(awake); }
  /// Makes the first senders: each has the lane with its number.
  void route_one_to_each() {
    for (std::size_t sender = 0; sender < count; ++sender) ASSERT_EQ(route(sender), sender);
  }

  static constexpr std::size_t count = 3;
  static constexpr std::uint64_t waiting_sender = 1U << 19U;

 private:
  std::shared_ptr<detail::lane_choice> choice_ = std::make_shared<detail::lane_choice>(count);
  std::deque<detail::lane_choice::lane> lanes_ = [this] {
    std::deque<detail::lane_choice::lane> lanes;
    for (std::size_t i = 0; i < count; ++i) lanes.emplace_back(choice_, i);
    return lanes;
  }();
};

TEST_F(lane_choice, gives_each_of_the_first_senders_a_lane_of_its_own) {
  route_one_to_each();
}

TEST_F(lane_choice, keeps_a_sender_whose_messages_are_on_their_way) {
  for (int i = 0; i < 10; ++i) EXPECT_EQ(route(1), 0U);
  handle(0, 1);
  EXPECT_EQ(route(1), 0U) << "nine are on their way";
}

TEST_F(lane_choice, forgets_a_message_that_was_not_sent) {
  route_one_to_each();
  handle(0, 0);
  EXPECT_THROW(fail_to_send(0), std::bad_alloc);
  EXPECT_EQ(route(4), 0U) << "it is not in front of the lane";
}

TEST_F(lane_choice, keeps_a_sender_whose_requests_wait) {
  EXPECT_EQ(route(1), 0U);
  handle(0, 1, 2);
  launch(0, 1, 1);
  EXPECT_EQ(route(1), 0U);
}

TEST_F(lane_choice, keeps_a_sender_on_an_idle_lane) {
  for (int i = 0; i < 9; ++i) {
    EXPECT_EQ(route(1), 0U);
    handle(0, 1);
  }
}

TEST_F(lane_choice, moves_a_sender_from_a_busy_lane_to_the_one_with_the_fewest_requests) {
  route_one_to_each();
  handle(0, 0, 1);
  handle(1, 1, 5);
  handle(2, 2, 7);
  ASSERT_EQ(route(77), 0U) << "one request waits there, five and seven elsewhere";
  handle(0, 77, 6);
  launch(0, 0, 1);
  EXPECT_EQ(route(0), 1U) << "six requests of another sender wait on its lane";
  handle(1, 0);
  launch(2, 2, 7);
  EXPECT_EQ(route(0), 2U);
  EXPECT_EQ(route(77), 0U) << "its own requests wait";
}

TEST_F(lane_choice, prefers_a_lane_that_is_idle_and_awake) {
  route_one_to_each();
  for (std::size_t i = 0; i < count; ++i) handle(i, i, 0, i == 1);
  EXPECT_EQ(route(77), 1U);
  handle(1, 77, 0, true);
  EXPECT_EQ(route(2), 1U) << "its own lane sleeps";
  EXPECT_EQ(route(0), 0U) << "no idle lane is awake: its own one is as good as another one";
}

TEST_F(lane_choice, takes_turns_with_two_lanes_until_the_device_has_less_to_do) {
  make_heavy(1);
  std::size_t lane = 0;
  for (int i = 0; i < 200; ++i) {
    const auto next = route(1);
    ASSERT_EQ(next, 1 - lane) << "after message " << i;
    handle_with_device(lane = next, 1, 4);
  }
  int moves = 0;
  for (int i = 0; i < 200; ++i) {
    const auto next = route(1);
    moves += next != lane ? 1 : 0;
    handle_with_device(lane = next, 1, 1);
  }
  EXPECT_LT(moves, 60) << "it keeps its lane after a while";
  const auto last_lane = lane;
  for (int i = 0; i < 10; ++i) {
    ASSERT_EQ(route(1), last_lane);
    handle_with_device(last_lane, 1, 1);
  }
}

TEST_F(lane_choice, counts_the_launches_of_both_lanes_while_they_take_turns) {
  make_heavy(1);
  std::size_t lane = 0;
  for (int i = 0; i < 200; ++i) {
    const auto next = route(1);
    ASSERT_EQ(next, 1 - lane) << "after message " << i;
    handle_with_device(lane = next, 1, 2);
  }
}

TEST_F(lane_choice, keeps_a_sender_whose_launches_follow_each_other) {
  for (std::uint64_t i = 0; i < 200; ++i) {
    ASSERT_EQ(route(1), 0U);
    handle_with_device(0, 1, 8, i);
  }
}

TEST_F(lane_choice, ends_turns_with_a_launch_that_follows_another_one) {
  make_heavy(1);
  const auto lane = route(1);
  ASSERT_EQ(lane, 1U);
  handle_with_device(lane, 1, 4, 1);
  EXPECT_EQ(route(1), lane);
}

TEST_F(lane_choice, takes_no_turns_while_messages_wait_or_are_on_their_way) {
  make_heavy(1);
  ASSERT_EQ(route(1), 1U);
  for (int i = 0; i < 10; ++i) ASSERT_EQ(route(1), 1U) << "the first is on its way";
  for (int i = 0; i < 11; ++i) handle_with_device(1, 1, 4);
  EXPECT_EQ(route(1), 0U);
}

TEST_F(lane_choice, takes_no_turns_with_lanes_that_others_use) {
  route_one_to_each();
  for (std::size_t sender = 0; sender < count; ++sender) handle(sender, sender);
  for (int i = 0; i < 200; ++i) {
    for (std::size_t sender = 0; sender < count; ++sender) {
      ASSERT_EQ(route(sender), sender);
      handle_with_device(sender, sender, 8);
    }
  }
  // They have ended, and one goes on.
  for (int i = 0; i < 3; ++i) {
    if (route(0) != 0) return;
    handle_with_device(0, 0, 8);
  }
  FAIL() << "it takes no turns with lanes that nobody uses";
}

TEST_F(lane_choice, takes_no_turns_for_senders_that_share_a_lane) {
  for (int i = 0; i < 200; ++i) {
    for (const std::uint64_t sender : {1U, 2U}) {
      handle_with_device(0, sender, 8);
      handle_with_device(1, waiting_sender, 0);
      handle_with_device(2, waiting_sender, 0);
    }
  }
  EXPECT_EQ(route(1), 0U);
  handle(0, 1);
  EXPECT_EQ(route(1), 0U);
}

TEST_F(lane_choice, takes_no_turns_with_a_lane_that_has_work_of_others) {
  make_heavy(1);
  handle(1, waiting_sender, 2);
  EXPECT_EQ(route(1), 0U);
  handle_with_device(0, 1, 4);
  EXPECT_EQ(route(1), 2U);
}

TEST_F(lane_choice, brings_the_runs_of_a_program_to_its_first_home) {
  const int program = 0;
  const int other_program = 0;
  route_one_to_each();
  for (std::size_t i = 0; i < count; ++i) handle(i, i, 0, true);
  EXPECT_EQ(route(0, request_priority::normal, &program), 0U) << "it has no home";
  handle(0, 0, 0, true);
  note_home(2, &program);
  note_home(0, &program);
  for (std::uint64_t sender = 0; sender < 20; ++sender) {
    EXPECT_EQ(route(sender, request_priority::normal, &program), 2U);
  }
  EXPECT_LT(route(77, request_priority::normal, &other_program), 2U);
  EXPECT_LT(route(78), 2U);
}

TEST_F(lane_choice, leaves_a_home_that_has_full_batches) {
  const int program = 0;
  note_home(1, &program);
  for (std::uint64_t sender = 100; sender < 164; ++sender) {
    EXPECT_EQ(route(sender, request_priority::normal, &program), 1U);
  }
  EXPECT_NE(route(1, request_priority::normal, &program), 1U);
  handle(1, 100);
  EXPECT_EQ(route(2, request_priority::normal, &program), 1U);
}

TEST_F(lane_choice, keeps_a_sender_whose_requests_wait_from_the_home_of_a_program) {
  const int program = 0;
  EXPECT_EQ(route(1), 0U);
  note_home(1, &program);
  handle(0, 1, 1);
  EXPECT_EQ(route(1, request_priority::normal, &program), 0U) << "a request waits";
  handle(0, 1);
  launch(0, 1, 1);
  EXPECT_EQ(route(1, request_priority::normal, &program), 1U);
  EXPECT_EQ(route(1), 1U) << "a message is on its way";
}

TEST_F(lane_choice, keeps_lanes_for_messages_of_high_priority) {
  const auto choice = std::make_shared<detail::lane_choice>(count, 1);
  detail::lane_choice::lane ordinary(choice, 0);
  const auto lane_of = [&](std::uint64_t sender, request_priority priority) {
    return choice->route({sender}, priority, nullptr, [](std::size_t lane) { return lane; });
  };
  for (std::uint64_t sender = 1; sender < 9; ++sender) {
    EXPECT_EQ(lane_of(100 + sender, request_priority::high), count - 1);
    EXPECT_LT(lane_of(200 + sender, request_priority::normal), count - 1);
    EXPECT_LT(lane_of(300 + sender, request_priority::low), count - 1);
  }
}

TEST_F(lane_choice, has_homes_among_the_lanes_for_all_priorities) {
  const int program = 0;
  const auto choice = std::make_shared<detail::lane_choice>(count, 1);
  detail::lane_choice::lane urgent(choice, count - 1);
  detail::lane_choice::lane ordinary(choice, 1);
  const auto lane_of = [&](std::uint64_t sender, request_priority priority) {
    return choice->route({sender}, priority, &program, [](std::size_t lane) { return lane; });
  };
  urgent.note_home(&program);
  EXPECT_EQ(lane_of(1, request_priority::normal), 0U);
  ordinary.note_home(&program);
  EXPECT_EQ(lane_of(2, request_priority::normal), 1U);
  EXPECT_EQ(lane_of(3, request_priority::low), 1U);
  EXPECT_EQ(lane_of(4, request_priority::high), count - 1);
}

TEST_F(lane_choice, seldom_holds_a_sender_to_the_lane_of_others) {
  const auto choice = std::make_shared<detail::lane_choice>(2, 1);
  const auto lane_of = [&](std::uint64_t sender, request_priority priority) {
    return choice->route({sender}, priority, nullptr, [](std::size_t lane) { return lane; });
  };
  // Their messages are on their way all the time.
  for (std::uint64_t sender = 0; sender < 8; ++sender) {
    ASSERT_EQ(lane_of(sender, request_priority::normal), 0U);
  }
  int held = 0;
  for (std::uint64_t sender = 1000; sender < 11'000; ++sender) {
    if (lane_of(sender, request_priority::high) != 1) ++held;
  }
  EXPECT_LT(held, 50);
}

TEST_F(lane_choice, keeps_the_order_of_a_sender_with_several_priorities) {
  const auto choice = std::make_shared<detail::lane_choice>(2, 1);
  detail::lane_choice::lane ordinary(choice, 0);
  const auto lane_of = [&](request_priority priority) {
    return choice->route({1}, priority, nullptr, [](std::size_t lane) { return lane; });
  };
  ASSERT_EQ(lane_of(request_priority::normal), 0U);
  EXPECT_EQ(lane_of(request_priority::high), 0U) << "an earlier message is on its way";
  ordinary.note_added({1});
  ordinary.note_handled({1});
  ordinary.note_handled({1});
  ordinary.publish(true);
  EXPECT_EQ(lane_of(request_priority::high), 0U) << "an earlier request waits";
  ordinary.note_handled({1});
  ordinary.note_left({1});
  ordinary.publish(true);
  EXPECT_EQ(lane_of(request_priority::high), 1U);
}

TEST_F(lane_choice, keeps_a_sender_that_has_come_back) {
  EXPECT_EQ(route(1), 0U);
  handle(0, 1);
  publish(1, true);
  EXPECT_EQ(route(1), 1U);
  handle(1, 1);
  publish(0, true);
  EXPECT_EQ(route(1), 0U);
  publish(1, true);
  EXPECT_EQ(route(1), 0U) << "a message is on its way";
  handle(0, 1, 1);
  EXPECT_EQ(route(1), 0U) << "a message is on its way, and a request waits";
  handle(0, 1);
  handle(0, 1);
  EXPECT_EQ(route(1), 0U) << "a request waits";
  handle(0, 1);
  launch(0, 1, 1);
  EXPECT_EQ(route(1), 1U);
}

/// Senders on threads of their own, and lanes that let their requests wait for a while.
TEST(lane_choices, keep_the_order_of_each_sender) {
  constexpr std::size_t lanes = 3;
  constexpr std::size_t senders = 4;
  constexpr std::uint64_t each = 4000;
  const auto choice = std::make_shared<detail::lane_choice>(lanes);
  struct numbered_message {
    std::uint64_t sender;
    std::uint64_t number;
  };
  struct mailbox {
    std::mutex mutex;
    std::deque<numbered_message> messages;
  };
  std::array<mailbox, lanes> mailboxes;
  std::array<std::atomic<std::uint64_t>, senders> last{};  // the last one that was launched
  std::array<std::atomic<std::uint64_t>, senders> launched{};
  std::atomic<std::size_t> out_of_order{0};
  std::atomic<std::size_t> moves{0};
  std::atomic<std::size_t> unfinished{senders * each};
  auto generator = make_generator();
  std::vector<std::thread> threads;
  for (std::size_t lane = 0; lane < lanes; ++lane) {
    threads.emplace_back([&, lane, random = std::mt19937_64(generator())]() mutable {
      detail::lane_choice::lane choice_lane(choice, lane);
      std::deque<numbered_message> waiting;
      while (unfinished != 0) {
        std::optional<numbered_message> next;
        {
          const std::lock_guard lock(mailboxes[lane].mutex);
          auto& messages = mailboxes[lane].messages;
          if (!messages.empty()) {
            next = messages.front();
            messages.pop_front();
          }
        }
        if (next) {
          waiting.push_back(*next);
          choice_lane.note_added({next->sender});
          choice_lane.note_handled({next->sender});
        } else if (waiting.empty()) {
          std::this_thread::yield();
        }
        while (!waiting.empty() && random() % 3 != 0) {
          const auto m = waiting.front();
          if (last[m.sender].exchange(m.number) + 1 != m.number) ++out_of_order;
          ++launched[m.sender];
          waiting.pop_front();
          choice_lane.note_left({m.sender});
          --unfinished;
        }
        choice_lane.publish(random() % 2 == 0);
      }
    });
  }
  for (std::size_t sender = 0; sender < senders; ++sender) {
    threads.emplace_back([&, sender, random = std::mt19937_64(generator())]() mutable {
      std::size_t before = lanes;
      for (std::uint64_t i = 1; i <= each; ++i) {
        choice->route({sender}, request_priority::normal, nullptr, [&](std::size_t lane) {
          const std::lock_guard lock(mailboxes[lane].mutex);
          mailboxes[lane].messages.push_back({sender, i});
          if (before != lane && before != lanes) ++moves;
          before = lane;
        });
        // Sometimes it waits for the launches, as for replies.
        if (random() % 8 == 0) {
          while (launched[sender] != i) std::this_thread::yield();
        }
      }
    });
  }
  for (auto& t : threads) t.join();
  EXPECT_EQ(out_of_order, 0U);
  EXPECT_GT(moves, 0U);
}

}  // namespace
}  // namespace sluice::test
