// SPDX-License-Identifier: Apache-2.0
// What threads do while there is nothing to do.
#include "tests/operations/executing.hpp"

#include <sluice/operations/transfer.hpp>

#include <gtest/gtest.h>
#include <sys/resource.h>

#include <chrono>
#include <thread>

namespace sluice::test {
namespace {

class idle : public executor_test {};

/// What the threads of the process have done so far.
struct activity {
  std::chrono::microseconds cpu;
  long context_switches;

  static activity so_far() {
    rusage usage{};
    ::getrusage(RUSAGE_SELF, &usage);
    const auto time = [](const timeval& t) {
      return std::chrono::seconds(t.tv_sec) + std::chrono::microseconds(t.tv_usec);
    };
    return {time(usage.ru_utime) + time(usage.ru_stime), usage.ru_nvcsw + usage.ru_nivcsw};
  }
};

TEST_P(idle, threads_sleep_until_they_are_woken) {
  constexpr auto period = std::chrono::milliseconds(100);
  // A thread that spins takes all of the period, one that wakes every millisecond 100 switches.
  // Tools have threads of their own.
  const auto is_quiet = [&](const activity& before, const activity& after) {
    return after.cpu - before.cpu < period / 10 &&
           after.context_switches - before.context_switches < 20;
  };
  for (const auto policy : {wait_policy::latency, wait_policy::balanced, wait_policy::frugal}) {
    const auto service = std::make_shared<device_service>(
        open_device(GetParam()), device_service_options{.waiting = policy});
    executor mine(service);
    mine.on_wake(waking());
    (void)run(mine, fill{.value = 1, .shape = extents{4}});
    // Some threads spin before they sleep. The test ends when the process has become quiet.
    for (;;) {
      const auto before = activity::so_far();
      std::this_thread::sleep_for(period);
      if (is_quiet(before, activity::so_far())) break;
    }
    EXPECT_EQ(run(mine, fill{.value = 1, .shape = extents{8}}).shape(), (extents{8}));
  }
}

INSTANTIATE_TEST_SUITE_P(devices, idle, every_device(), parameter_name);

}  // namespace
}  // namespace sluice::test
