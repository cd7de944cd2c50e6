// SPDX-License-Identifier: Apache-2.0
#include "tests/support/seed.hpp"

#include <sluice/actors/lane_choice.hpp>

#include <gtest/gtest.h>

#include <atomic>
#include <deque>
#include <mutex>
#include <random>
#include <set>
#include <thread>
#include <vector>

namespace sluice::test {
namespace {

using detail::lane_choice;

/// The lane of the next message of a sender.
std::size_t route(lane_choice& by, std::uint64_t sender) {
  return by.route(sender, [](std::size_t lane) { return lane; });
}
/// A lane takes a message and launches it.
void take(lane_choice& by, std::size_t lane) {
  by.note_taken(lane);
  by.note_waiting(lane, 0);
}

TEST(lane_choice, gives_each_of_the_first_senders_a_lane_of_its_own) {
  lane_choice choice(4);
  std::set<std::size_t> lanes;
  for (std::uint64_t sender = 100; sender < 104; ++sender) lanes.insert(route(choice, sender));
  EXPECT_EQ(lanes.size(), 4U);
}

TEST(lane_choice, keeps_a_sender_whose_messages_are_on_their_way) {
  lane_choice choice(2);
  const auto mine = route(choice, 1);
  for (int i = 0; i < 9; ++i) EXPECT_EQ(route(choice, 1), mine);
  choice.note_taken(mine);
  choice.note_waiting(mine, 0);
  EXPECT_EQ(route(choice, 1), mine) << "nine are on their way";
}

TEST(lane_choice, keeps_a_sender_whose_requests_wait) {
  lane_choice choice(2);
  const auto mine = route(choice, 1);
  choice.note_taken(mine);
  choice.note_waiting(mine, 1);
  EXPECT_EQ(route(choice, 1), mine);
}

TEST(lane_choice, keeps_a_sender_on_an_idle_lane) {
  lane_choice choice(3);
  const auto mine = route(choice, 1);
  for (int i = 0; i < 9; ++i) {
    take(choice, mine);
    EXPECT_EQ(route(choice, 1), mine);
  }
}

TEST(lane_choice, moves_a_sender_with_nothing_in_a_queue_to_the_lane_with_the_fewest_requests) {
  lane_choice choice(3);
  std::size_t of[3];
  for (std::uint64_t sender = 0; sender < 3; ++sender) of[sender] = route(choice, sender);
  for (const auto lane : of) take(choice, lane);
  // The first sender's lane is busy with another sender, who comes to it once it is the least busy.
  choice.note_waiting(of[1], 5);
  choice.note_waiting(of[2], 7);
  const auto other = route(choice, 77);
  ASSERT_EQ(other, of[0]);
  EXPECT_EQ(route(choice, 0), of[0]) << "one request waits there, five and seven elsewhere";
  take(choice, of[0]);
  take(choice, of[0]);
  choice.note_waiting(of[0], 6);
  choice.note_waiting(of[2], 0);
  EXPECT_EQ(route(choice, 0), of[2]);
  EXPECT_EQ(route(choice, 77), of[2]) << "one request is on its way there, five wait elsewhere";
}

/// Senders on threads of their own, and lanes that let their requests wait for a while.
TEST(lane_choice, keeps_the_order_of_each_sender) {
  constexpr std::size_t lanes = 3;
  constexpr std::size_t senders = 4;
  constexpr std::uint64_t each = 4000;
  lane_choice choice(lanes);
  struct message {
    std::size_t sender;
    std::uint64_t number;
  };
  struct mailbox {
    std::mutex mutex;
    std::deque<message> messages;
  };
  std::array<mailbox, lanes> mailboxes;
  std::array<std::atomic<std::uint64_t>, senders> launched{};
  std::atomic<std::size_t> out_of_order{0};
  std::atomic<std::size_t> moves{0};
  std::atomic<std::size_t> left{senders * each};
  auto generator = make_generator();
  std::vector<std::thread> threads;
  for (std::size_t lane = 0; lane < lanes; ++lane) {
    threads.emplace_back([&, lane, random = std::mt19937_64(generator())]() mutable {
      std::deque<message> waiting;
      while (left != 0) {
        {
          const std::lock_guard lock(mailboxes[lane].mutex);
          auto& messages = mailboxes[lane].messages;
          if (!messages.empty()) {
            waiting.push_back(messages.front());
            messages.pop_front();
            choice.note_taken(lane);
          }
        }
        if (waiting.empty()) std::this_thread::yield();
        while (!waiting.empty() && random() % 3 != 0) {
          const auto& m = waiting.front();
          if (launched[m.sender].exchange(m.number) + 1 != m.number) ++out_of_order;
          waiting.pop_front();
          --left;
        }
        choice.note_waiting(lane, waiting.size());
      }
    });
  }
  for (std::size_t sender = 0; sender < senders; ++sender) {
    threads.emplace_back([&, sender, random = std::mt19937_64(generator())]() mutable {
      std::size_t before = lanes;
      for (std::uint64_t i = 1; i <= each; ++i) {
        choice.route(sender, [&](std::size_t lane) {
          const std::lock_guard lock(mailboxes[lane].mutex);
          mailboxes[lane].messages.push_back({sender, i});
          if (before != lane && before != lanes) ++moves;
          before = lane;
        });
        // Sometimes it waits for the launches, as for replies.
        while (random() % 8 == 0 && launched[sender] != i) std::this_thread::yield();
      }
    });
  }
  for (auto& t : threads) t.join();
  EXPECT_EQ(out_of_order, 0U);
  EXPECT_GT(moves, 0U);
}

}  // namespace
}  // namespace sluice::test
