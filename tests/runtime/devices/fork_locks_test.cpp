// SPDX-License-Identifier: Apache-2.0
// A fork while another thread holds a lock of the parent. That thread stops in an allocation that
// it makes under the lock.
#include "runtime/base/sanitizers.hpp"
#include "runtime/core/shared_runtimes.hpp"
#include "tests/support/expect_error.hpp"
#include "tests/support/failing_allocations.hpp"
#include "tests/support/forked_child.hpp"
#include "tests/support/gate.hpp"

#include <sluice/runtime/device_runtime.hpp>
#include <sluice/runtime/host_device.hpp>

#include <gtest/gtest.h>

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <memory>
#include <new>
#include <string>
#include <thread>

namespace sluice::test {
namespace {

/// Forks while another thread runs `locking`, whose first allocation is made under a lock. Prints
/// how the child ended.
///
/// If `fork_waits`, the thread continues once this one forks, because the fork waits for the lock.
template <class InChild>
[[noreturn]] void fork_inside(const std::function<void()>& locking, bool fork_waits,
                              InChild in_child) {
  std::atomic<bool> held{false};
  std::atomic<bool> forking{false};
  std::atomic<bool> forked{false};
  std::thread holder([&] {
    const std::function<void()> stop = [&] {
      held = true;
      await([&] { return fork_waits ? forking.load() : forked.load(); });
      if (fork_waits) let_others_run(10'000);
    };
    fail_allocation(1, &stop);
    try {
      locking();
    } catch (const std::bad_alloc&) {
      // The allocation fails after the stop.
    }
    fail_allocation(0);
    // ThreadSanitizer reports threads that had finished at the fork as leaks of the child.
    await([&] { return forked.load(); });
  });
  await([&] { return held.load(); });
  forking = true;
  const auto end = end_of_child(in_child);
  forked = true;
  holder.join();
  std::fprintf(stderr, "the child %s\n", end.c_str());
  std::exit(0);
}

[[noreturn]] void fork_while_another_thread_configures() {
  static detail::shared_runtimes all(
      [](device_id id) { return open_host_device({.ordinal = id.ordinal}); });
  static const device_id host{device_kind::host, 0};
  fork_inside([] { all.configure(host, {}); }, true,
              [] {
                all.configure(host, {});
                return 0;
              });
}

/// Calls every function of the parent's device that may lock. Returns the number of calls without
/// the expected refusal.
int use_in_child(device& of_parent, native_stream* stream, native_event* event, void* address,
                 void* pooled) {
  int wrong = 0;
  const auto refused = [&](const std::function<void()>& call) {
    try {
      call();
      ++wrong;
    } catch (const error& e) {
      if (e.code() != errc::device_lost) ++wrong;
    }
  };
  refused([&] { (void)of_parent.create_stream(); });
  refused([&] { (void)of_parent.create_event(); });
  refused([&] { of_parent.require_adoptable(stream); });
  refused([&] { of_parent.synchronize(stream); });
  refused([&] { (void)of_parent.allocate(16); });
  refused([&] { (void)of_parent.allocate_async(16, stream); });
  of_parent.deallocate(address);
  of_parent.deallocate_async(pooled, stream);
  of_parent.deallocate_finished(pooled);
  if (of_parent.trim_async() != 0 || of_parent.pool_bytes() != 0) ++wrong;
  if (!of_parent.quiescent(stream)) ++wrong;
  of_parent.lose(error(errc::device_lost, "again"));
  of_parent.destroy_event(event);
  of_parent.destroy_stream(stream);
  return wrong;
}

[[noreturn]] void fork_while_another_thread_is_in_the_device(
    const std::function<void(device&, native_stream*)>& locking) {
  static const auto shared_device = open_host_device();
  auto* const stream = shared_device->create_stream();
  auto* const event = shared_device->create_event();
  auto* const address = shared_device->allocate(16);
  auto* const pooled = shared_device->allocate_async(16, stream);
  fork_inside([&] { locking(*shared_device, stream); }, false,
              [&] { return use_in_child(*shared_device, stream, event, address, pooled); });
}

class fork_with_a_lock_held : public ::testing::Test {
 protected:
  void SetUp() override {
#if defined(SLUICE_ADDRESS_SANITIZER)
    GTEST_SKIP() << "LeakSanitizer cannot stop the child's threads and reports false leaks";
#endif
  }
};

TEST_F(fork_with_a_lock_held, of_the_shared_runtimes_waits_for_it) {
  EXPECT_EXIT(fork_while_another_thread_configures(), ::testing::ExitedWithCode(0),
              "^the child exited with 0\n$");
}
TEST_F(fork_with_a_lock_held, of_a_host_device_leaves_the_child_refusals) {
  EXPECT_EXIT(fork_while_another_thread_is_in_the_device(
                  [](device& host_device, native_stream*) { (void)host_device.create_event(); }),
              ::testing::ExitedWithCode(0), "^the child exited with 0\n$");
}
TEST_F(fork_with_a_lock_held, of_the_host_pool_leaves_the_child_refusals) {
  EXPECT_EXIT(
      fork_while_another_thread_is_in_the_device([](device& host_device, native_stream* stream) {
        (void)host_device.allocate_async(1 << 20, stream);
      }),
      ::testing::ExitedWithCode(0), "^the child exited with 0\n$");
}

}  // namespace
}  // namespace sluice::test
