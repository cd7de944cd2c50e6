// SPDX-License-Identifier: Apache-2.0
#include "runtime/core/runtime_core.hpp"
#include "tests/support/failing_allocations.hpp"
#include "tests/support/gate.hpp"

#include <sluice/runtime/host_device.hpp>

#include <gtest/gtest.h>

#include <atomic>

namespace sluice::test {
namespace {

using reclaimed = std::atomic<int>;

// A caller that hands work over receives the error if memory is short; the thread itself has no
// caller.
TEST(reclaim_thread, needs_no_memory_for_what_waits) {
  device_runtime runtime(open_host_device());
  auto& core = *detail::runtime_core::of(runtime);
  const auto s = runtime.create_stream();
  gate closed;
  closed.hold(s);
  detail::timeline::of(s.ref())->reserve();
  const timeline_point point{s.id(), detail::timeline::of(s.ref())->submit()};

  reclaimed began = 0;
  core.reclaim_after(
      {}, {},
      [](void* count, allocation) noexcept {
        fail_allocation(1);  // runs on the reclaim thread
        static_cast<reclaimed*>(count)->fetch_add(1);
      },
      &began);
  await([&] { return began.load() == 1; });

  constexpr int waiting = 40;
  reclaimed ended = 0;
  for (int i = 0; i < waiting; ++i) {
    core.reclaim_after(
        {&point, 1}, {},
        [](void* count, allocation) noexcept { static_cast<reclaimed*>(count)->fetch_add(1); },
        &ended);
  }
  struct answer {
    bool unused = false;
    reclaimed times = 0;
  } last;
  core.reclaim_after(
      {}, {},
      [](void* context, allocation) noexcept {
        static_cast<answer*>(context)->unused = allocation_is_to_fail();
        fail_allocation(0);
        static_cast<answer*>(context)->times.fetch_add(1);
      },
      &last);
  await([&] { return last.times.load() == 1; });
  EXPECT_TRUE(last.unused);
  EXPECT_EQ(ended.load(), 0);
  closed.open();
  await([&] { return ended.load() == waiting; });
}

}  // namespace
}  // namespace sluice::test
