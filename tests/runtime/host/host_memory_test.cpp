// SPDX-License-Identifier: Apache-2.0
// The host runs out of memory. A loss and the end of a runtime have no caller that could receive an
// exception.
#include "tests/support/expect_error.hpp"
#include "tests/support/failing_allocations.hpp"
#include "tests/support/gate.hpp"

#include <sluice/runtime/device_runtime.hpp>
#include <sluice/runtime/host_device.hpp>
#include <sluice/runtime/host_task.hpp>

#include <gtest/gtest.h>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <malloc.h>
#include <memory>
#include <new>
#include <optional>

namespace sluice::test {
namespace {

/// Calls `attempt` while all allocations of this thread from the `nth` on fail. Returns whether it
/// made fewer.
template <class Attempt>
bool enough_for(std::uint64_t nth, Attempt attempt) {
  fail_allocations_from(nth);
  try {
    attempt();
  } catch (const std::bad_alloc&) {
  } catch (const error&) {
  }
  const bool enough = allocation_is_to_fail();
  fail_allocations_from(0);
  return enough;
}

void launch(stream_ref stream, const gpu_ref<int>& read, const gpu_ref<int>& written) {
  auto recorder = launch_recorder::strict(stream);
  recorder.read(read).write(written);
  recorder.preflight();
  submit_host_task(stream, [] {});
  (void)recorder.commit();
}

// A launch for which neither a ticket nor a wait is possible loses the device.
TEST(a_host_without_memory, loses_at_most_the_device_by_a_launch) {
  int losses = 0;
  bool enough = false;
  for (std::uint64_t nth = 1; !enough; ++nth) {
    device_runtime runtime(open_host_device());
    const auto s = runtime.create_stream();
    const auto other = runtime.create_stream();
    const auto a = runtime.allocate<int>(1000, s);
    const auto b = runtime.allocate<int>(1000, other);
    gate closed;
    closed.hold(s);
    launch(s, b, a);
    enough = enough_for(nth, [&] { launch(other, a, b); });
    EXPECT_EQ(runtime.statistics().leases, 0u) << nth;
    closed.open();
    if (runtime.device().lost()) {
      ++losses;
      await([&] {
        return runtime.device().quiescent(s.ref().native()) &&
               runtime.device().quiescent(other.ref().native());
      });
    } else {
      launch(other, a, b);
      other.synchronize();
    }
  }
  EXPECT_GT(losses, 0);
}

TEST(a_host_without_memory, makes_a_stream_or_none) {
  bool enough = false;
  for (std::uint64_t nth = 1; !enough; ++nth) {
    device_runtime runtime(open_host_device());
    const auto before = runtime.statistics().streams;
    enough = enough_for(nth, [&] { (void)runtime.create_stream(); });
    EXPECT_EQ(runtime.statistics().streams, before) << nth;
    EXPECT_FALSE(runtime.device().lost()) << nth;
    runtime.create_stream().synchronize();
  }
}

TEST(a_host_without_memory, loses_the_device_where_a_failure_cannot_be_noted) {
  const auto script = std::make_shared<fault_script>();
  device_runtime runtime(open_host_device({.faults = script}));
  const auto s = runtime.create_stream();
  const auto a = runtime.allocate<int>(1000, s);
  const auto b = runtime.allocate<int>(1000, s);
  script->fail_nth(fault_target::launch, 1);
  launch(s, a, b);
  runtime.device().synchronize(s.ref().native());
  EXPECT_FALSE(enough_for(1, [&] { runtime.reap_pending(); }));
  EXPECT_TRUE(runtime.device().lost());
  await([&] { return runtime.device().quiescent(s.ref().native()); });
}

TEST(a_host_without_memory, loses_the_device_as_scripted) {
  bool enough = false;
  for (std::uint64_t nth = 1; !enough; ++nth) {
    const auto script = std::make_shared<fault_script>();
    const auto device = open_host_device({.faults = script});
    auto* const s = device->create_stream();
    const std::uint32_t value = 1;
    std::uint32_t target = 0;
    script->fail_nth(fault_target::loss, 1);
    enough = enough_for(nth, [&] { device->fill(&target, &value, sizeof value, 1, s); });
    EXPECT_EQ(device->lost(), enough) << nth;
  }
}

TEST(a_host_without_memory, lets_nothing_wait_for_a_record_that_was_not_made) {
  const auto device = open_host_device();
  auto* const s = device->create_stream();
  auto* const event = device->create_event();
  EXPECT_FALSE(enough_for(1, [&] { device->record(event, 1, s); }));
  EXPECT_TRUE(throws(errc::stream_misuse, "recorded", [&] { device->wait(s, event, 1); }));
  device->record(event, 1, s);
  device->wait(s, event, 1);
  device->synchronize(s);
}

TEST(a_host_without_memory, keeps_directly_allocated_memory_that_it_cannot_list) {
  bool enough = false;
  for (std::uint64_t nth = 1; !enough; ++nth) {
    device_runtime runtime(open_host_device(),
                           {.resource = make_direct_resource({.tracked = true})});
    const auto s = runtime.create_stream();
    auto a = runtime.allocate<int>(1000, s);
    enough = enough_for(nth, [&] { a = {}; });
    EXPECT_EQ(runtime.statistics().blocks, 0u) << nth;
  }
}

// So large that the C library maps it separately in any state, which makes it countable.
constexpr std::size_t large = std::size_t{64} << 20U;

/// The number of bytes that the C library has mapped for single blocks. 0 under a sanitizer;
/// LeakSanitizer checks this itself.
std::size_t bytes_mapped() {
  return mallinfo2().hblkhd;
}

TEST(a_host_without_memory, leaks_no_memory_of_the_device) {
  bool enough = false;
  for (std::uint64_t nth = 1; !enough; ++nth) {
    const auto device = open_host_device();
    const auto before = bytes_mapped();
    void* address = nullptr;
    enough = enough_for(nth, [&] { address = device->allocate(large); });
    EXPECT_EQ(address != nullptr, enough) << nth;
    device->deallocate(address);
    EXPECT_EQ(bytes_mapped(), before) << nth;
  }
}

TEST(a_host_without_memory, leaks_no_memory_of_the_devices_pool) {
  bool enough = false;
  for (std::uint64_t nth = 1; !enough; ++nth) {
    const auto before = bytes_mapped();
    auto device = open_host_device();
    auto* const s = device->create_stream();
    void* address = nullptr;
    enough = enough_for(nth, [&] { address = device->allocate_async(large, s); });
    EXPECT_EQ(address != nullptr, enough) << nth;
    device.reset();  // with all memory that the pool records as in use
    EXPECT_EQ(bytes_mapped(), before) << nth;
  }
}

TEST(a_host_without_memory, leaves_what_is_free_in_the_devices_pool) {
  bool enough = false;
  for (std::uint64_t nth = 1; !enough; ++nth) {
    const auto device = open_host_device();
    auto* const s = device->create_stream();
    device->deallocate_async(device->allocate_async(large, s), s);
    device->synchronize(s);
    void* address = nullptr;
    enough = enough_for(nth, [&] { address = device->allocate_async(large, s); });
    EXPECT_EQ(address != nullptr, enough) << nth;
    EXPECT_EQ(device->trim_async(), enough ? 0 : large) << nth;
  }
}

/// Ends a runtime, with or without `unfinished` work, while all allocations from the `nth` on fail.
/// Returns whether the end made fewer.
bool ends(std::uint64_t nth, bool unfinished) {
  auto device = open_host_device();
  auto runtime = std::make_unique<device_runtime>(
      device, runtime_options{.drain_timeout = std::chrono::milliseconds(unfinished ? 0 : 60'000)});
  auto s = runtime->create_stream();
  auto other = std::optional(runtime->create_stream());
  auto a = runtime->allocate<int>(1000, s);
  auto b = runtime->allocate<int>(1000, *other);
  gate closed;
  if (unfinished) closed.hold(s);
  launch(s, b, a);
  launch(*other, a, b);
  bool lost = false;
  const bool enough = enough_for(nth, [&] {
    other.reset();
    a = {};
    runtime.reset();
    lost = device->lost();
    closed.open();
    device.reset();
  });
  EXPECT_EQ(runtime, nullptr);
  EXPECT_EQ(device, nullptr);
  EXPECT_TRUE(lost || !unfinished) << nth;
  return enough;
}

TEST(a_host_without_memory, ends_a_runtime) {
  for (std::uint64_t nth = 1; !ends(nth, false); ++nth) {
  }
}

TEST(a_host_without_memory, ends_a_runtime_with_unfinished_work) {
  for (std::uint64_t nth = 1; !ends(nth, true); ++nth) {
  }
}

}  // namespace
}  // namespace sluice::test
