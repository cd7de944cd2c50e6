// SPDX-License-Identifier: Apache-2.0
#include "tests/support/expect_error.hpp"
#include "tests/support/gate.hpp"

#include <sluice/envelope/device_service.hpp>
#include <sluice/envelope/timer.hpp>
#include <sluice/envelope/wait_policy.hpp>

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <cstddef>
#include <limits>
#include <thread>
#include <vector>

namespace sluice::test {
namespace {

TEST(spinners, end_when_the_condition_is_met) {
  detail::spinners spinners(1);
  int looks = 0;
  EXPECT_TRUE(spinners.spin(wait_policy::latency, [&] { return ++looks == 3; }));
  EXPECT_EQ(looks, 3);
}

TEST(spinners, end_when_the_time_has_passed) {
  detail::spinners spinners(1);
  EXPECT_FALSE(spinners.spin(wait_policy::balanced, [] { return false; }));
}

TEST(spinners, do_not_spin_if_they_are_frugal) {
  detail::spinners spinners(1);
  int looks = 0;
  EXPECT_FALSE(spinners.spin(wait_policy::frugal, [&] { return ++looks == 2; }));
  EXPECT_EQ(looks, 1);
}

TEST(spinners, are_no_more_than_their_limit) {
  constexpr int most = 2;
  detail::spinners spinners(most);
  std::atomic<int> spinning{0};
  std::atomic<bool> open{false};
  std::vector<std::thread> threads;
  for (int i = 0; i < most; ++i) {
    threads.emplace_back([&] {
      int looks = 0;
      // The time ends after the test has seen what it waits for.
      while (!spinners.spin(wait_policy::latency, [&] {
        if (++looks == 2) ++spinning;
        return open.load();
      })) {
      }
    });
  }
  await([&] { return spinning == most; });
  bool refused = false;
  // A spinner whose time has passed begins again, and leaves its place for a moment.
  await([&] {
    int looks = 0;
    refused = !spinners.spin(wait_policy::balanced, [&] { return ++looks == 2; }) && looks == 1;
    return refused;
  });
  EXPECT_TRUE(refused);
  open = true;
  for (auto& thread : threads) thread.join();
  int looks = 0;
  EXPECT_TRUE(spinners.spin(wait_policy::balanced, [&] { return ++looks == 2; }));
}

// Launches complete under every policy.
TEST(wait_policy, is_an_option_of_a_service) {
  EXPECT_EQ(device_service("host").waiting(), wait_policy::balanced);
  for (const auto policy : {wait_policy::latency, wait_policy::balanced, wait_policy::frugal}) {
    device_service service("host", {.waiting = policy});
    EXPECT_EQ(service.waiting(), policy);
    EXPECT_EQ(detail::spinners::of_process().of_clients(),
              policy == wait_policy::latency ? wait_policy::latency : wait_policy::balanced);
  }
}

TEST(device_service, refuses_options_that_are_no_enumerators) {
  EXPECT_TRUE(throws(errc::invalid_argument, "waiting",
                     [] { device_service("host", {.waiting = static_cast<wait_policy>(3)}); }));
  EXPECT_TRUE(throws(errc::invalid_argument, "completion", [] {
    device_service("host", {.completion = static_cast<completion_strategy>(3)});
  }));
  EXPECT_TRUE(throws(errc::invalid_argument, "priority", [] {
    (void)device_runtime(open_device("host"), {}).create_stream(static_cast<stream_priority>(2));
  }));
}

TEST(device_service, refuses_more_lanes_than_threads_can_serve) {
  constexpr auto most = std::numeric_limits<std::size_t>::max();
  EXPECT_TRUE(throws(errc::invalid_argument, "lanes_per_actor: is",
                     [] { device_service("host", {.lanes_per_actor = most}); }));
  EXPECT_TRUE(throws(errc::invalid_argument, "high_priority_lanes: is 1025",
                     [] { device_service("host", {.high_priority_lanes = 1025}); }));
}

TEST(deadline_after, does_not_overflow) {
  const auto begun = std::chrono::steady_clock::now();
  const auto far = begun + std::chrono::hours(24 * 365 * 100);
  EXPECT_GT(deadline_after(std::chrono::nanoseconds::max()), far);
  EXPECT_GT(deadline_after(std::chrono::milliseconds::max()), far);
  EXPECT_GT(deadline_after(std::chrono::seconds::max()), far);
  EXPECT_GT(deadline_after(std::chrono::hours::max()), far);
  EXPECT_GT(deadline_after(std::chrono::duration<double>::max()), far);
  // The largest float below 2^63 nanoseconds. In float, the product would be 2^63.
  EXPECT_GT(deadline_after(std::chrono::duration<float>(9223371776.0F)), far);
  const auto now = deadline_after(std::chrono::hours::min());
  EXPECT_GE(now, begun);
  EXPECT_LE(now, std::chrono::steady_clock::now());
  const auto soon = deadline_after(std::chrono::microseconds(500));
  EXPECT_GE(soon, begun + std::chrono::microseconds(500));
  EXPECT_LE(soon, std::chrono::steady_clock::now() + std::chrono::microseconds(500));
}

}  // namespace
}  // namespace sluice::test
