// SPDX-License-Identifier: Apache-2.0
// A library destroys its workspace after the last launch of the lane, whatever else has ended by
// then.
#include "operations/seam.hpp"
#include "tests/support/gate.hpp"

#include <sluice/envelope/lane.hpp>
#include <sluice/runtime/fault_countdown.hpp>
#include <sluice/runtime/host_device.hpp>
#include <sluice/runtime/memory_adaptors.hpp>

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <cstddef>
#include <memory>

namespace sluice::test {
namespace {

struct library {
  library(device_runtime& runtime, stream_ref stream, std::atomic<bool>& went)
      : scratch(runtime, stream, "scratch"), gone(went) {
    scratch.require(1000);
  }
  ~library() { gone.store(true); }

  operations::workspace scratch;
  std::atomic<bool>& gone;
};

/// Leaves a lane whose library has a workspace, with work that waits at `closed`.
void leave_lane(const std::shared_ptr<device_service>& service, gate& closed,
                std::atomic<bool>& gone) {
  lane leaving(service);
  leaving.keep(std::make_shared<library>(service->runtime(), leaving.stream(), gone));
  closed.hold(leaving.stream());
  closed.wait_until_reached();  // what has not begun would be discarded with the device
}

TEST(workspace, goes_behind_the_last_launch_of_its_lane) {
  const auto service = std::make_shared<device_service>("host");
  std::atomic<bool> gone{false};
  gate closed;
  leave_lane(service, closed, gone);
  EXPECT_GE(service->runtime().bytes_outstanding(), 1000u);
  EXPECT_FALSE(gone);
  closed.open();
  await([&] { return service->runtime().bytes_outstanding() == 0; });
  await([&] { return gone.load(); });
}

TEST(workspace, shrinks_after_launches_that_need_little_of_it) {
  device_runtime runtime(open_device("host"));
  const auto stream = runtime.create_stream();
  operations::workspace scratch(runtime, stream, "scratch");
  constexpr std::size_t large = std::size_t{1} << 30U;
  scratch.require(large);
  const auto require_often = [&](std::size_t times, std::size_t bytes) {
    for (std::size_t i = 0; i < times; ++i) {
      scratch.require(bytes);
      ASSERT_GE(scratch.bytes(), bytes);
    }
  };
  // A need of a quarter begins a new period.
  require_often(scratch.period - 1, 1000);
  scratch.require(large / 4);
  require_often(scratch.period - 1, 1000);
  EXPECT_EQ(scratch.bytes(), large);
  scratch.require(5000);
  EXPECT_EQ(scratch.bytes(), 5000U);  // the largest need of the period
  stream.synchronize();
  runtime.reap_pending();
  EXPECT_LT(runtime.bytes_outstanding(), 2 * 5000U);
  // A launch that is repeated takes no memory from the driver, for a long time.
  require_often(16 * scratch.period - 1, 0);
  EXPECT_EQ(scratch.bytes(), 5000U);
  scratch.require(0);
  EXPECT_EQ(scratch.bytes(), 0U);
  EXPECT_EQ(scratch.address(), nullptr);
  scratch.require(64);
  EXPECT_EQ(scratch.bytes(), 64U);
}

// The launches in flight use the old memory, which nobody else gets before they have completed.
TEST(workspace, shrinks_behind_the_launches_in_flight) {
  device_runtime runtime(open_device("host"));
  const auto stream = runtime.create_stream();
  const auto other = runtime.create_stream();
  operations::workspace scratch(runtime, stream, "scratch");
  constexpr std::size_t large = 1U << 20U;
  scratch.require(large);
  const auto* const address = scratch.address();
  gate closed;
  closed.hold(stream);
  for (std::size_t i = 1; i < scratch.period; ++i) scratch.require(16);
  scratch.require(15);
  ASSERT_EQ(scratch.bytes(), 16U);
  {
    const auto next = runtime.allocate_bytes(large, other);
    EXPECT_NE(next.address(), address);
  }
  closed.open();
}

TEST(workspace, keeps_its_memory_if_there_is_none_to_shrink_to) {
  auto faults = std::make_shared<fault_countdown>();
  device_runtime runtime(
      open_device("host"),
      {.resource = make_failing_resource(make_pool_resource(make_async_resource()), faults)});
  const auto stream = runtime.create_stream();
  operations::workspace scratch(runtime, stream, "scratch");
  scratch.require(1000);
  for (std::size_t i = 1; i < scratch.period; ++i) scratch.require(10);
  faults->fail_nth(1, 2);  // the runtime tries twice
  scratch.require(9);
  EXPECT_EQ(scratch.bytes(), 1000U);
  for (std::size_t i = 1; i < scratch.period; ++i) scratch.require(9);
  scratch.require(10);
  EXPECT_EQ(scratch.bytes(), 10U);
}

// The device is given up, since the work does not end in time: the library outlasts the runtime.
TEST(workspace, may_go_after_its_runtime) {
  auto service = std::make_shared<device_service>(
      "host", device_service_options{.runtime = {.drain_timeout = std::chrono::milliseconds(1)}});
  std::atomic<bool> gone{false};
  gate closed;
  leave_lane(service, closed, gone);
  service.reset();
  EXPECT_FALSE(gone);
  closed.open();
  await([&] { return gone.load(); });
}

}  // namespace
}  // namespace sluice::test
