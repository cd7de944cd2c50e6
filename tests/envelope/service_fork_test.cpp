// SPDX-License-Identifier: Apache-2.0
// A device service that a child of fork() inherits. Each test runs a process of its own.
#include "runtime/base/sanitizers.hpp"
#include "runtime/devices/open_devices.hpp"
#include "tests/envelope/launches.hpp"
#include "tests/envelope/timing_trace.hpp"
#include "tests/support/forked_child.hpp"
#include "tests/support/forwarding_device.hpp"

#include <gtest/gtest.h>

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <thread>

namespace sluice::test {
namespace {

/// A host device that calls a function of the test before it creates a timestamp.
class stopping_device final : public forwarding_device {
 public:
  stopping_device() : forwarding_device({device_kind::host, 0}, open_host_device()) {}
  std::function<void()> at_create;
  native_timestamp* create_timestamp() override {
    if (at_create) at_create();
    return forwarding_device::create_timestamp();
  }
};

/// A service with one lane, as a program may keep it in static storage.
struct timed_service {
  explicit timed_service(std::shared_ptr<device> device)
      : service(std::make_shared<device_service>(std::move(device))), work(service) {}
  /// Makes a launch with timestamps.
  mailbox<int> launch() {
    kernel_envelope envelope({.library = "tests", .operation = "nothing"});
    envelope.trace(trace);
    mailbox<int> box;
    envelope.run(work, operands(), box.token(), 0, {}, [](const launch_context&) {});
    return box;
  }
  std::shared_ptr<timing_trace> trace = std::make_shared<timing_trace>();
  std::shared_ptr<device_service> service;
  lane work;
};

/// Forks while another thread makes timestamps under a lock. Prints how the child ended.
[[noreturn]] void fork_while_timestamps_are_made(const std::function<int(timed_service&)>& child) {
  static const auto device = std::make_shared<stopping_device>();
  detail::open_devices::instance().add(*device);
  static timed_service mine(device);
  std::atomic<bool> inside{false};
  std::atomic<bool> forked{false};
  device->at_create = [&] {
    inside = true;
    await([&] { return forked.load(); });
  };
  std::thread launching([] { (void)mine.launch().wait(); });
  await([&] { return inside.load(); });
  const auto end = end_of_child([&] { return child(mine); });
  forked = true;
  launching.join();
  device->at_create = {};
  std::fprintf(stderr, "the child %s\n", end.c_str());
  std::fflush(nullptr);
  detail::open_devices::instance().remove(*device);
  std::exit(0);
}

class service_fork : public ::testing::Test {
 protected:
  void SetUp() override {
#if defined(SLUICE_ADDRESS_SANITIZER)
    GTEST_SKIP() << "LeakSanitizer cannot stop the parent's threads in a child: false leaks";
#endif
  }
};

TEST_F(service_fork, lets_a_child_exit_whatever_locks_the_parent_held) {
  EXPECT_EXIT(fork_while_timestamps_are_made([](timed_service&) { return 0; }),
              ::testing::ExitedWithCode(0), "^the child exited with 0\n$");
}
TEST_F(service_fork, refuses_a_timed_launch_whatever_locks_the_parent_held) {
  EXPECT_EXIT(fork_while_timestamps_are_made([](timed_service& mine) {
                return mine.launch().failure() == errc::device_lost ? 0 : 1;
              }),
              ::testing::ExitedWithCode(0), "^the child exited with 0\n$");
}

/// Forks while the planner makes a plan and the timer waits. Prints how the child ended.
[[noreturn]] void fork_while_a_plan_is_made(const std::function<int(device_service&)>& child) {
  static const auto service = std::make_shared<device_service>("host");
  static planner::client jobs(service->planner());
  std::atomic<bool> inside{false};
  std::atomic<bool> forked{false};
  service->timer().call_at(service->timer().now() + std::chrono::hours(1), [] {});
  jobs.post([&] {
    inside = true;
    await([&] { return forked.load(); });
  });
  await([&] { return inside.load(); });
  const auto end = end_of_child([&] { return child(*service); });
  forked = true;
  std::fprintf(stderr, "the child %s\n", end.c_str());
  std::fflush(nullptr);
  std::exit(0);
}

TEST_F(service_fork, lets_a_child_exit_while_a_plan_is_made) {
  EXPECT_EXIT(fork_while_a_plan_is_made([](device_service&) { return 0; }),
              ::testing::ExitedWithCode(0), "^the child exited with 0\n$");
}
TEST_F(service_fork, refuses_plans_and_deadlines_in_a_child) {
  const auto refuses = [](const std::function<void()>& call) {
    try {
      call();
    } catch (const error& e) {
      return e.code() == errc::device_lost;
    }
    return false;
  };
  EXPECT_EXIT(fork_while_a_plan_is_made([&](device_service& service) {
                planner::client mine(service.planner());
                return refuses([&] { mine.post([] {}); }) &&
                               refuses([&] { service.timer().call_at({}, [] {}); })
                           ? 0
                           : 1;
              }),
              ::testing::ExitedWithCode(0), "^the child exited with 0\n$");
}

}  // namespace
}  // namespace sluice::test
