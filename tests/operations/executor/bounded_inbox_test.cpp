// SPDX-License-Identifier: Apache-2.0
#include "tests/support/expect_error.hpp"

#include <sluice/operations/bounded_inbox.hpp>

#include <gtest/gtest.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

namespace sluice::test {
namespace {

struct message {
  std::uint64_t sender = 0;
  std::uint64_t number = 0;
};
using letter = std::unique_ptr<message>;

class inbox_test : public ::testing::Test {
 protected:
  using inbox = detail::bounded_inbox<letter>;
  static constexpr inbox::limits limits{.in_mailbox = 4,
                                        .bytes_in_mailbox = 1000,
                                        .bytes_of_step = 10,
                                        .backlog_of_sender = 50,
                                        .backlog = 80,
                                        .backlog_bytes_of_sender = 3000,
                                        .backlog_bytes = 5000};

  bool send(std::uint64_t sender, std::uint64_t number, bool cancels = false,
            detail::message_size size = {.bytes = 1}) {
    auto content = std::make_unique<message>(message{sender, number});
    const auto refusal = error_of([&] { inbox_.send({sender}, content, size, cancels); });
    EXPECT_EQ(content == nullptr, !refusal);
    const std::lock_guard lock(mutex_);
    if (refusal) refusal_ = refusal;
    return !refusal;
  }
  /// Handles the next message of the mailbox.
  std::optional<message> handle() {
    letter next;
    {
      const std::lock_guard lock(mutex_);
      if (mailbox_.empty()) return std::nullopt;
      next = std::move(mailbox_.front());
      mailbox_.pop_front();
    }
    inbox_.note_handled({next->sender});
    return *next;
  }
  [[nodiscard]] std::size_t in_mailbox() {
    const std::lock_guard lock(mutex_);
    return mailbox_.size();
  }
  [[nodiscard]] inbox& tested_inbox() { return inbox_; }
  /// The text of the last refusal.
  [[nodiscard]] std::string refusal() const { return refusal_ ? refusal_->what() : ""; }

 private:
  std::optional<error> refusal_;
  std::mutex mutex_;
  std::deque<letter> mailbox_;
  inbox inbox_{[this](letter&& next) {
                 const std::lock_guard lock(mutex_);
                 mailbox_.push_back(std::move(next));
               },
               limits};
};

TEST_F(inbox_test, has_room_for_what_cancels_others) {
  std::uint64_t sent = 0;
  while (send(1, sent)) ++sent;
  const auto refused = sent;
  while (send(1, sent, true)) ++sent;
  EXPECT_EQ(sent - refused, limits.backlog_of_sender);
  for (std::uint64_t i = 0; i < sent; ++i) EXPECT_EQ(handle().value().number, i);
}

TEST_F(inbox_test, is_bounded_in_bytes) {
  const auto send_large = [&](std::uint64_t sender, std::uint64_t number, std::size_t bytes) {
    return send(sender, number, false, {.bytes = bytes});
  };
  EXPECT_TRUE(send_large(1, 0, 9000)) << "nothing else is there";
  EXPECT_TRUE(send_large(1, 1, 1)) << "is kept";
  EXPECT_EQ(in_mailbox(), 1U);
  EXPECT_TRUE(send_large(1, 2, 2999));
  EXPECT_FALSE(send_large(1, 3, 1)) << "beyond the share of the sender";
  EXPECT_EQ(refusal(),
            "the messages of this sender that wait already use 3000 bytes; with 1 more "
            "they would exceed the limit of 3000");
  EXPECT_TRUE(send_large(2, 0, 600));
  EXPECT_TRUE(send_large(2, 1, 600));
  EXPECT_EQ(in_mailbox(), 2U) << "beyond what a sender may have there";
  EXPECT_TRUE(send_large(2, 2, 1400));
  EXPECT_FALSE(send_large(2, 3, 1)) << "beyond what all may have";
  EXPECT_EQ(refusal(),
            "the messages that wait already use 5000 bytes; with 1 more they would "
            "exceed the limit of 5000");
  EXPECT_TRUE(send(2, 3, true)) << "cancels others";
  EXPECT_EQ(handle()->sender, 1U);
  EXPECT_EQ(in_mailbox(), 2U) << "the small one";
  std::vector<std::uint64_t> numbers{0, 0, 0};
  ++numbers[1];
  while (const auto next = handle()) {
    EXPECT_EQ(next->number, numbers[next->sender]++);
  }
  EXPECT_EQ(numbers[1], 3U);
  EXPECT_EQ(numbers[2], 4U);
  EXPECT_EQ(tested_inbox().backlog(), 0U);
  for (std::uint64_t i = 0; i < 4; ++i) EXPECT_TRUE(send_large(1, i, 250));
  EXPECT_EQ(in_mailbox(), 4U) << "no bytes are left behind";
}

TEST_F(inbox_test, lets_others_wait_behind_few_messages_of_a_sender) {
  for (std::uint64_t i = 0; i < 40; ++i) EXPECT_TRUE(send(1, i));
  EXPECT_EQ(in_mailbox(), 4U);
  EXPECT_TRUE(send(2, 0));
  for (std::uint64_t i = 0; i < 4; ++i) EXPECT_EQ(handle()->sender, 1U);
  EXPECT_EQ(handle()->sender, 2U);
  for (std::uint64_t i = 4; i < 40; ++i) EXPECT_EQ(handle()->number, i);
  EXPECT_FALSE(handle());
  EXPECT_EQ(tested_inbox().backlog(), 0U);
}

/// The actor examines each step, so long programs wait behind few others of their sender.
TEST_F(inbox_test, has_few_steps_of_a_sender_in_the_mailbox) {
  const auto send_steps = [&](std::uint64_t sender, std::uint64_t number, std::size_t steps) {
    EXPECT_TRUE(send(sender, number, false, {.bytes = 1, .steps = steps}));
  };
  for (std::uint64_t i = 0; i < 4; ++i) send_steps(1, i, 1000);
  EXPECT_EQ(in_mailbox(), 1U) << "one is let in where no other one is";
  for (std::uint64_t i = 0; i < 4; ++i) send_steps(2, i, 30);
  EXPECT_EQ(in_mailbox(), 1U + 3U);
  for (std::uint64_t handled = 0; handled < 8; ++handled) EXPECT_TRUE(handle());
  EXPECT_EQ(tested_inbox().backlog(), 0U) << "steps take no bytes of the backlog";
}

/// The place of a sender in an inbox.
std::uint64_t slot_of(std::uint64_t sender) {
  return (sender * 0x9e3779b97f4a7c15U) >> 54U;
}

TEST_F(inbox_test, lets_senders_of_one_place_take_turns) {
  std::uint64_t other = 2;
  while (slot_of(other) != slot_of(1)) ++other;
  std::uint64_t sent = 0;
  while (send(1, sent)) ++sent;
  EXPECT_TRUE(send(other, 0)) << "it has a share of its own";
  EXPECT_TRUE(send(other, 1));
  std::vector<std::uint64_t> order;
  while (const auto next = handle()) order.push_back(next->sender);
  ASSERT_EQ(order.size(), sent + 2);
  EXPECT_EQ(order[limits.in_mailbox + 1], other) << "behind the mailbox and one turn";
  EXPECT_EQ(order[limits.in_mailbox + 3], other);
}

TEST_F(inbox_test, refuses_what_exceeds_a_limit) {
  std::size_t count = 0;
  for (std::uint64_t i = 0; i < 100; ++i) count += send(1, i) ? 1 : 0;
  EXPECT_EQ(count, 54U);
  EXPECT_EQ(refusal(), "50 messages of this sender wait already; the limit is 50");
  for (std::uint64_t i = 0; i < 100; ++i) count += send(2, i) ? 1 : 0;
  EXPECT_EQ(count, 54U + 34U);
  EXPECT_EQ(refusal(), "80 messages wait already; the limit is 80");
  EXPECT_TRUE(send(3, 0)) << "it is not kept";
  EXPECT_EQ(handle()->number, 0U);
  EXPECT_TRUE(send(1, 54));
  std::size_t handled = 1;
  while (handle()) ++handled;
  EXPECT_EQ(handled, 90U);
}

TEST_F(inbox_test, passes_everything_on_when_it_closes) {
  for (std::uint64_t i = 0; i < 40; ++i) EXPECT_TRUE(send(1, i));
  tested_inbox().close();
  EXPECT_EQ(in_mailbox(), 40U);
  for (std::uint64_t i = 40; i < 200; ++i) EXPECT_TRUE(send(1, i));
  for (std::uint64_t i = 0; i < 200; ++i) EXPECT_EQ(handle()->number, i);
}

TEST_F(inbox_test, keeps_the_order_of_each_of_many_threads) {
  constexpr std::uint64_t senders = 4;
  constexpr std::uint64_t count = 5000;
  std::vector<std::jthread> threads;
  for (std::uint64_t sender = 0; sender < senders; ++sender) {
    threads.emplace_back([this, sender] {
      for (std::uint64_t i = 0; i < count; ++i) {
        while (!send(sender, i)) std::this_thread::yield();
      }
    });
  }
  std::vector<std::uint64_t> next(senders, 0);
  for (std::uint64_t handled = 0; handled < senders * count;) {
    const auto message = handle();
    if (!message) {
      std::this_thread::yield();
      continue;
    }
    ASSERT_EQ(message->number, next[message->sender]++);
    ++handled;
  }
  EXPECT_EQ(tested_inbox().backlog(), 0U);
}

}  // namespace
}  // namespace sluice::test
