// SPDX-License-Identifier: Apache-2.0
#include "runtime/sync/one_way_signal.hpp"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <thread>
#include <vector>

namespace sluice::detail {
namespace {

TEST(one_way_signal, returns_at_once_when_ready) {
  one_way_signal signal;
  int calls = 0;
  signal.wait([&] {
    ++calls;
    return true;
  });
  signal.wait_for(std::chrono::hours(1), [&] {
    ++calls;
    return true;
  });
  EXPECT_EQ(calls, 2);
}

TEST(one_way_signal, ends_a_limited_wait_without_being_raised) {
  one_way_signal signal;
  signal.wait_for(std::chrono::microseconds(50), [] { return false; });
}

TEST(one_way_signal, makes_visible_what_happened_before) {
  for (int round = 0; round < 300; ++round) {
    one_way_signal signal;
    int plain = 0;
    std::atomic<bool> flag{false};
    std::thread raising([&] {
      plain = 42;
      flag.store(true, std::memory_order_release);
      signal.raise();
    });
    signal.wait([&] { return flag.load(std::memory_order_acquire); });
    EXPECT_EQ(plain, 42);
    raising.join();
  }
}

// The signal is raised after every check, so the thread must not sleep after its last one.
TEST(one_way_signal, does_not_sleep_over_a_raise_after_its_last_look) {
  one_way_signal signal;
  int looks = 0;
  signal.wait([&] {
    signal.raise();
    return ++looks == 1000;
  });
  EXPECT_EQ(looks, 1000);
}

// A lost wake-up would hang this test: each side sleeps until the other's count arrives.
TEST(one_way_signal, loses_no_wake_up) {
  constexpr int rounds = 20'000;
  one_way_signal ping;
  one_way_signal pong;
  std::atomic<int> sent{0};
  std::atomic<int> answered{0};
  std::thread other([&] {
    for (int i = 1; i <= rounds; ++i) {
      ping.wait([&] { return sent.load(std::memory_order_acquire) >= i; });
      answered.store(i, std::memory_order_release);
      pong.raise();
    }
  });
  for (int i = 1; i <= rounds; ++i) {
    sent.store(i, std::memory_order_release);
    ping.raise();
    pong.wait([&] { return answered.load(std::memory_order_acquire) >= i; });
  }
  other.join();
}

TEST(one_way_signal, wakes_every_sleeper) {
  constexpr int sleepers = 4;
  constexpr int rounds = 1000;
  one_way_signal signal;
  one_way_signal back;
  std::atomic<int> round{0};
  std::atomic<int> awake{0};
  std::vector<std::thread> threads;
  for (int i = 0; i < sleepers; ++i) {
    threads.emplace_back([&] {
      for (int r = 1; r <= rounds; ++r) {
        signal.wait([&] { return round.load(std::memory_order_acquire) >= r; });
        awake.fetch_add(1, std::memory_order_release);
        back.raise();
      }
    });
  }
  for (int r = 1; r <= rounds; ++r) {
    round.store(r, std::memory_order_release);
    signal.raise();
    back.wait([&] { return awake.load(std::memory_order_acquire) == r * sleepers; });
  }
  for (auto& thread : threads) thread.join();
}

TEST(one_way_signal, several_raisers_do_not_hide_each_other) {
  constexpr int raisers = 3;
  constexpr int each = 5000;
  one_way_signal signal;
  std::atomic<int> sum{0};
  std::vector<std::thread> threads;
  for (int i = 0; i < raisers; ++i) {
    threads.emplace_back([&] {
      for (int n = 0; n < each; ++n) {
        sum.fetch_add(1, std::memory_order_release);
        signal.raise();
      }
    });
  }
  for (int seen = 0; seen < raisers * each;) {
    signal.wait([&] { return sum.load(std::memory_order_acquire) > seen; });
    seen = sum.load(std::memory_order_acquire);
  }
  for (auto& thread : threads) thread.join();
}

}  // namespace
}  // namespace sluice::detail
