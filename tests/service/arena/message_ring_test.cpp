// SPDX-License-Identifier: Apache-2.0
#include "service/arena/message_ring.hpp"

#include "service/arena/arena_fault.hpp"
#include "tests/support/seed.hpp"

#include <gtest/gtest.h>

#include <array>
#include <cstdint>
#include <random>
#include <thread>
#include <vector>

namespace sluice::service {
namespace {

/// A ring between guards that nothing must change.
struct guarded_ring {
  explicit guarded_ring(std::size_t capacity) : words(capacity + 2 * guard, 0xa5a5) {
    for (std::size_t i = 0; i < capacity; ++i) words[guard + i] = 0;
  }
  [[nodiscard]] ring_memory memory() {
    return {.head = &head, .tail = &tail, .slots = {&words[guard], words.size() - 2 * guard}};
  }
  [[nodiscard]] bool is_intact() const {
    for (std::size_t i = 0; i < guard; ++i) {
      if (words[i] != 0xa5a5 || words[words.size() - 1 - i] != 0xa5a5) return false;
    }
    return true;
  }

  static constexpr std::size_t guard = 8;
  std::uint64_t head = 0;
  std::uint64_t tail = 0;
  std::vector<std::uint64_t> words;
};

TEST(message_ring, takes_as_many_entries_as_it_has_slots) {
  for (const std::size_t capacity : {1, 2, 8}) {
    guarded_ring ring(capacity);
    ring_producer producer(ring.memory());
    ring_consumer consumer(ring.memory());
    EXPECT_TRUE(consumer.is_empty());
    std::uint64_t written = 0, read = 0;
    for (int round = 0; round < 5; ++round) {
      for (std::size_t i = 0; i < capacity; ++i) EXPECT_TRUE(producer.push(written++));
      EXPECT_FALSE(producer.push(written));
      EXPECT_FALSE(consumer.is_empty());
      std::array<std::uint64_t, 16> entries{};
      const auto first = consumer.pop(std::span(entries).first(1));
      const auto rest = consumer.pop(std::span(entries).subspan(first));
      EXPECT_EQ(first + rest, capacity);
      for (std::size_t i = 0; i < capacity; ++i) EXPECT_EQ(entries[i], read++);
      EXPECT_TRUE(consumer.is_empty());
      EXPECT_EQ(consumer.pop(entries), 0);
    }
    EXPECT_TRUE(ring.is_intact());
  }
}

TEST(message_ring, keeps_the_order_and_what_entries_are_about_between_threads) {
  constexpr std::uint64_t count = 100'000;
  guarded_ring ring(16);
  std::vector<std::uint64_t> contents(count);  // written by one thread, read by the other
  std::thread writer([&] {
    ring_producer producer(ring.memory());
    for (std::uint64_t i = 0; i < count; ++i) {
      contents[i] = i * i;
      while (!producer.push(i)) std::this_thread::yield();
    }
  });
  ring_consumer consumer(ring.memory());
  std::uint64_t expected = 0;
  while (expected < count) {
    std::array<std::uint64_t, 5> entries{};
    const auto popped = consumer.pop(entries);
    if (popped == 0) std::this_thread::yield();
    for (std::size_t i = 0; i < popped; ++i, ++expected) {
      ASSERT_EQ(entries[i], expected);
      ASSERT_EQ(contents[expected], expected * expected);
    }
  }
  writer.join();
  EXPECT_TRUE(ring.is_intact());
}

TEST(message_ring, reports_impossible_indices_of_the_peer) {
  auto generator = sluice::test::make_generator();
  for (int round = 0; round < 10'000; ++round) {
    guarded_ring ring(8);
    ring_producer producer(ring.memory());
    ring_consumer consumer(ring.memory());
    std::array<std::uint64_t, 16> entries{};
    const auto filled = generator() % 9;
    for (std::uint64_t i = 0; i < filled; ++i) ASSERT_TRUE(producer.push(i));

    // Near the possible values, where comparisons err, or anywhere.
    const auto near = [&] {
      return generator() % 2 == 0 ? generator() : filled + generator() % 32 - 16;
    };
    ring.tail = near();
    if (ring.tail > 8) {
      ASSERT_THROW((void)consumer.pop(entries), arena_fault) << ring.tail;
    } else {
      ASSERT_EQ(consumer.pop(entries), ring.tail);
    }
    ring.head = near();
    if (filled == 8) {
      if (filled - ring.head > 8) {
        ASSERT_THROW((void)producer.push(9), arena_fault) << ring.head;
      } else {
        ASSERT_EQ(producer.push(9), ring.head != 0);
      }
    }
    ASSERT_TRUE(ring.is_intact());
  }
}

}  // namespace
}  // namespace sluice::service
