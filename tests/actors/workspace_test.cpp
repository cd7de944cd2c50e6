// SPDX-License-Identifier: Apache-2.0
// A library's workspace goes with the library: behind the lane's last launch, whoever is gone then.
#include "actors/workspace.hpp"

#include "tests/support/gate.hpp"

#include <sluice/envelope/lane.hpp>
#include <sluice/runtime/host_device.hpp>

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <memory>

namespace sluice::test {
namespace {

struct library {
  library(device_runtime& runtime, stream_ref stream, std::atomic<bool>& went)
      : scratch(runtime, stream, "scratch"), gone(went) {
    scratch.require(1000);
  }
  ~library() { gone.store(true); }

  actors::workspace scratch;
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
