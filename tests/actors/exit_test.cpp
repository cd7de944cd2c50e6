// SPDX-License-Identifier: Apache-2.0
// How a process ends while its actors are at work. Each test runs a process of its own.
#include "tests/actors/session.hpp"
#include "tests/support/forked_child.hpp"

#include <sluice/actors/device.hpp>

#include <gtest/gtest.h>

#include <cstdlib>
#include <memory>
#include <optional>
#include <string>
#include <unistd.h>
#include <vector>

namespace sluice::test {
namespace {

using ref = gpu_ref<float>;

/// A process that hangs is ended by an alarm.
void begin() {
  (void)::alarm(60);
}

[[noreturn]] void exit_with_gemms_in_flight(const std::string& name) {
  begin();
  configured configuration;
  caf::actor_system system{configuration};
  scoped_device device(system, name);
  constexpr std::int64_t n = 1200;  // the helpers of a host device take part
  const auto a =
      ask<tensor>(system, device.actor(), sluice::upload{.values = std::vector<float>(n * n, 0.5F)})
          .as<float>();
  const auto blas = device.blas();
  for (int i = 0; i < 100; ++i) {
    post(blas, sgemm{.m = n, .n = n, .k = n, .a = a, .b = a});
  }
  await([&] { return device.service().engine().pending() >= 10; });
  std::exit(0);  // destroys none of the objects above
}

[[noreturn]] void end_the_system_first(const std::string& name) {
  begin();
  std::optional<scoped_device> device;
  {
    configured configuration;
    caf::actor_system system{configuration};
    device.emplace(system, name);
    const auto a =
        ask<tensor>(system, device->actor(), sluice::upload{.values = std::vector<float>(9, 0.5F)})
            .as<float>();
    (void)ask<ref>(system, device->blas(), sgemm{.m = 3, .n = 3, .k = 3, .a = a, .b = a});
  }
  device.reset();
  std::exit(0);
}

[[noreturn]] void fork_with_a_static_device(const std::string& name) {
  begin();
  static configured configuration;
  static auto* const system = new caf::actor_system{configuration};  // cannot end in a child
  static scoped_device device(*system, name);
  static const auto a =
      ask<tensor>(*system, device.actor(), sluice::upload{.values = std::vector<float>(9, 0.5F)})
          .as<float>();
  (void)ask<ref>(*system, device.blas(), sgemm{.m = 3, .n = 3, .k = 3, .a = a, .b = a});
  report_end_of_child([] { return 0; });
  std::exit(0);
}

class exit_of_a_process : public named_device_test {};
INSTANTIATE_TEST_SUITE_P(devices, exit_of_a_process, every_device(), parameter_name);

TEST_P(exit_of_a_process, waits_for_the_running_library_call_only) {
  EXPECT_EXIT(exit_with_gemms_in_flight(GetParam()), ::testing::ExitedWithCode(0), "^$");
}
TEST_P(exit_of_a_process, an_actor_system_may_end_before_its_scoped_device) {
  EXPECT_EXIT(end_the_system_first(GetParam()), ::testing::ExitedWithCode(0), "^$");
}
TEST_P(exit_of_a_process, a_forked_child_leaves_a_static_device_alone) {
  EXPECT_EXIT(fork_with_a_static_device(GetParam()), ::testing::ExitedWithCode(0),
              "^the child exited with 0\n$");
}

}  // namespace
}  // namespace sluice::test
