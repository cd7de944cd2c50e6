// SPDX-License-Identifier: Apache-2.0
// A worker that writes anything into the shared memory.
#include "service/arena/arena_layout.hpp"
#include "service/arena/front_channel.hpp"
#include "tests/service/arena/worker_beside.hpp"
#include "tests/support/seed.hpp"

#include <gtest/gtest.h>

#include <atomic>
#include <cstdint>
#include <cstring>
#include <random>
#include <thread>
#include <vector>

namespace sluice::service {
namespace {

using test::is_readable;
using test::send_bytes;

/// A front with a request in flight, and hands on all of its shared memory.
class hostile_worker : public ::testing::Test {
 protected:
  void SetUp() override { ASSERT_TRUE(send_bytes(front_, 0, std::vector<std::byte>(16))); }

  [[nodiscard]] std::span<std::byte> memory() { return memory_->bytes(); }
  void store(std::uint64_t* word, std::uint64_t value) {
    std::atomic_ref(*word).store(value, std::memory_order_seq_cst);
  }
  [[nodiscard]] std::uint64_t* reply_word(std::uint64_t index) {
    return reinterpret_cast<std::uint64_t*>(memory().data() + layout_.replies().begin) + index;
  }
  /// Writes a message at the beginning of the part for replies and its offset into the ring.
  void push(const message_words& words) {
    write_message(words, memory().subspan(layout_.replies().begin, layout_.replies().bytes));
    ASSERT_TRUE(replies_.push(layout_.replies().begin));
  }
  void expect_fault() {
    EXPECT_FALSE(front_.begin_sleep()) << "an arrived fault is no reason to sleep";
    std::vector<received_reply> replies;
    EXPECT_THROW((void)front_.receive(replies), arena_fault);
    EXPECT_THROW((void)front_.receive(replies), arena_fault) << "for ever";
    EXPECT_TRUE(replies.empty());
    EXPECT_EQ(front_.take_pending().size(), 1) << "the request can be retried";
  }
  void expect_inside(const received_reply& answer) {
    const auto part = memory().subspan(layout_.replies().begin, layout_.replies().bytes);
    for (const auto& output : answer.outputs) {
      ASSERT_GE(output.bytes.data(), part.data());
      ASSERT_LE(output.bytes.data() + output.bytes.size(), part.data() + part.size());
    }
  }

  front_channel front_{{.request_bytes = 4096, .reply_bytes = 4096, .ring_capacity = 8}};
  std::shared_ptr<shared_memory> memory_ = front_.memory();
  arena_layout layout_{std::span<const std::byte>(memory_->bytes())};
  ring_producer replies_{layout_.reply_ring(memory_->bytes())};
};

TEST_F(hostile_worker, answers_well_as_a_control) {
  push(encode_outputs(0, {}, layout_.replies()));
  std::vector<received_reply> replies;
  EXPECT_EQ(front_.receive(replies), 1);
}

TEST_F(hostile_worker, claims_more_replies_than_fit) {
  store(layout_.reply_ring(memory()).tail, 9);
  expect_fault();
}

TEST_F(hostile_worker, takes_replies_back) {
  store(layout_.reply_ring(memory()).tail, ~std::uint64_t{0});
  expect_fault();
}

TEST_F(hostile_worker, answers_from_outside_of_its_memory) {
  const auto end = layout_.replies().begin + layout_.replies().bytes;
  for (const auto offset :
       {std::uint64_t{0}, layout_.requests().begin, layout_.replies().begin - 256,
        layout_.replies().begin + 8, end, end + 256, std::uint64_t{1} << 63, ~std::uint64_t{255}}) {
    front_channel front({.request_bytes = 4096, .reply_bytes = 4096, .ring_capacity = 8});
    ring_producer ring(layout_.reply_ring(front.memory()->bytes()));
    ASSERT_TRUE(ring.push(offset));
    std::vector<received_reply> replies;
    EXPECT_THROW((void)front.receive(replies), arena_fault) << offset;
  }
}

TEST_F(hostile_worker, sends_a_message_beyond_the_end) {
  const auto last = layout_.replies().begin + layout_.replies().bytes - 256;
  store(reply_word((last - layout_.replies().begin) / 8), 256 / 8);
  ASSERT_TRUE(replies_.push(last));
  expect_fault();
}

TEST_F(hostile_worker, sends_an_endless_message) {
  store(reply_word(0), ~std::uint64_t{0});
  ASSERT_TRUE(replies_.push(layout_.replies().begin));
  expect_fault();
}

TEST_F(hostile_worker, answers_what_was_not_asked) {
  push(encode_outputs(1, {}, layout_.replies()));
  expect_fault();
}

TEST_F(hostile_worker, answers_twice) {
  push(encode_outputs(0, {}, layout_.replies()));
  ASSERT_TRUE(replies_.push(layout_.replies().begin));
  std::vector<received_reply> replies;
  EXPECT_THROW((void)front_.receive(replies), arena_fault);
  EXPECT_EQ(replies.size(), 1) << "the first answer was good";
}

TEST_F(hostile_worker, sends_outputs_that_are_not_its_own) {
  auto words = encode_outputs(0, {{.shape = {1}, .offset = layout_.replies().begin, .bytes = 4}},
                              layout_.replies());
  words[8] = layout_.requests().begin;
  push(words);
  expect_fault();
}

TEST_F(hostile_worker, claims_requests_that_it_cannot_have_read) {
  store(layout_.request_ring(memory()).head, 77);
  const std::vector<std::byte> bytes(8);
  EXPECT_THROW(
      {
        for (std::uint64_t number = 1; number < 20; ++number) {
          (void)send_bytes(front_, number, bytes);
          (void)front_.cancel(number);
        }
      },
      arena_fault);
}

TEST_F(hostile_worker, damages_the_ring_of_releases) {
  // The ring is full of releases that the worker does not take, and then its index is impossible.
  std::vector<received_reply> replies;
  const std::vector<std::byte> bytes(8);
  for (std::uint64_t number = 0; number < 9; ++number) {
    if (number != 0) {
      store(layout_.request_ring(memory()).head, number);
      ASSERT_TRUE(send_bytes(front_, number, bytes));
    }
    push(encode_outputs(number, {}, layout_.replies()));
    ASSERT_EQ(front_.receive(replies), 1);
    ASSERT_TRUE(front_.begin_sleep());
    replies.clear();
    ASSERT_EQ(is_readable(front_.front_wake_descriptor()), number == 8) << number;
  }
  front_.end_sleep();
  EXPECT_FALSE(front_.begin_sleep());
  EXPECT_THROW((void)front_.receive(replies), arena_fault);
}

TEST_F(hostile_worker, fills_the_memory_with_anything) {
  auto generator = sluice::test::make_generator();
  int faults = 0, answers = 0;
  for (int round = 0; round < 3'000; ++round) {
    front_channel front({.request_bytes = 4096, .reply_bytes = 4096, .ring_capacity = 8});
    const auto all = front.memory()->bytes();
    auto generate = [&](std::uint64_t limit) {
      return generator() % limit;
    };
    ASSERT_TRUE(send_bytes(front, generate(4), std::vector<std::byte>(16)));
    // A good reply, so that some bytes are near to good ones, and then noise anywhere.
    const auto base = layout_.replies().begin;
    write_message(encode_outputs(generate(4), {{.shape = {4}, .offset = base + 512, .bytes = 16}},
                                 layout_.replies()),
                  all.subspan(base, 512));
    const auto ring = layout_.reply_ring(all);
    ring.slots[0] = base;
    *ring.tail = 1;
    const auto noise = generate(2) == 0 ? 0 : generate(64);
    for (std::uint64_t i = 0; i < noise; ++i) {
      const auto place = generate(2) == 0 ? base + generate(128) : generate(all.size());
      all[place] = static_cast<std::byte>(generator());
    }
    if (generate(8) == 0) {
      for (auto& byte : all) byte = static_cast<std::byte>(generator());
    }
    try {
      std::vector<received_reply> replies;
      (void)front.begin_sleep();
      (void)front.receive(replies);
      for (const auto& answer : replies) {
        ++answers;
        for (const auto& output : answer.outputs) {
          ASSERT_GE(output.bytes.data(), all.data() + base);
          ASSERT_LE(output.bytes.data() + output.bytes.size(), all.data() + all.size());
        }
      }
      replies.clear();
      (void)send_bytes(front, 9, std::vector<std::byte>(16));
      (void)front.cancel(9);
      (void)front.receive(replies);
    } catch (const arena_fault&) {
      ++faults;
    }
    front.end_sleep();
  }
  EXPECT_GT(faults, 100);
  EXPECT_GT(answers, 100);
}

TEST_F(hostile_worker, changes_a_message_while_it_is_read) {
  auto generator = sluice::test::make_generator();
  const auto sound = encode_outputs(
      0, {{.shape = {4}, .offset = layout_.replies().begin + 512, .bytes = 16}}, layout_.replies());
  push(sound);
  std::atomic<bool> is_over = false;
  std::thread writer([&, seed = generator()] {
    std::mt19937_64 noise(seed);
    while (!is_over) {
      const auto index = noise() % sound.size();
      store(reply_word(index + 1), noise());
      store(reply_word(index + 1), sound[index]);
    }
  });
  int answers = 0;
  for (int round = 0; round < 20'000; ++round) {
    // Every front reads the same memory once: as `read_reply` does.
    try {
      const auto part = layout_.replies();
      const auto answer = decode_reply(
          read_message(memory().subspan(part.begin, part.bytes), max_reply_words), part);
      for (const auto& output : answer.outputs) ASSERT_EQ(defect_of(output, part), nullptr);
      ++answers;
    } catch (const arena_fault&) {
    }
  }
  is_over = true;
  writer.join();
  std::vector<received_reply> replies;
  ASSERT_EQ(front_.receive(replies), 1);
  expect_inside(replies[0]);
  EXPECT_GT(answers, 0);
}

}  // namespace
}  // namespace sluice::service
