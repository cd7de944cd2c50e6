// SPDX-License-Identifier: Apache-2.0
// A GPU that the program does not use gets no context, which would take half a gigabyte of its
// memory. Each test checks this in a child process.
#include "tests/support/devices.hpp"
#include "tests/support/forked_child.hpp"
#include "tests/support/gpu_context.hpp"
#include "tests/support/small_launches.hpp"

#include <sluice/runtime/copy.hpp>
#include <sluice/runtime/device_runtime.hpp>
#include <sluice/runtime/launch_recorder.hpp>

#include <gtest/gtest.h>

#include <cstdint>
#include <string>
#include <thread>
#include <vector>

namespace sluice::test {
namespace {

[[noreturn]] void list() {
  for (const auto& found : list_devices()) {
    if (found.id.kind != device_kind::cuda) continue;
    EXPECT_FALSE(has_context(found.id.ordinal)) << found.name;
  }
  end_child();
}

TEST(cuda_context, is_not_made_by_a_list_of_devices) {
  if (!has_device("cuda")) GTEST_SKIP() << "this machine has no GPU";
  EXPECT_EXIT(list(), ::testing::ExitedWithCode(0), "^$");
}

/// Exercises a runtime on a thread that has not used a GPU.
void exercise(const std::string& name) {
  device_runtime runtime(open_device(name));
  const auto one = runtime.create_stream();
  const auto two = runtime.create_stream(stream_priority::high);
  device_runtime host(open_device("host"));
  const auto at_host = host.create_stream();
  for (int i = 0; i < 3; ++i) {
    auto out = runtime.allocate<std::uint32_t>(1000, one, "filled");
    const std::uint32_t value = 7;
    (void)launch_fill(out, value, one);
    EXPECT_EQ(download(out, two), std::vector<std::uint32_t>(1000, value));
    const auto there = host.allocate<std::uint32_t>(1000, at_host, "copied");
    (void)enqueue_copy(there, at_host, out, two);
    (void)enqueue_copy(out, one, there, at_host);
    EXPECT_EQ(download(out, two), std::vector<std::uint32_t>(1000, value));
    out = {};
    runtime.reap_pending();
  }
  (void)runtime.device().trim_async();
  auto& device = runtime.device();
  device.deallocate_staging(device.allocate_staging(100));
  device.deallocate(device.allocate(100));
  (void)device.info();
}

[[noreturn]] void use_the_second() {
  exercise("cuda:1");
  std::thread([] { exercise("cuda:1"); }).join();
  EXPECT_TRUE(has_context(1));
  EXPECT_FALSE(has_context(0));
  end_child();
}

TEST(cuda_context, is_not_made_on_the_first_gpu_by_who_uses_the_second) {
  if (!has_device("cuda:1")) GTEST_SKIP() << "this machine has no second GPU";
  EXPECT_EXIT(use_the_second(), ::testing::ExitedWithCode(0), "^$");
}

}  // namespace
}  // namespace sluice::test
