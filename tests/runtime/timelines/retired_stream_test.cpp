// SPDX-License-Identifier: Apache-2.0
// A stream that is retired while other threads use it: operations that have begun finish, and later
// ones are refused.
#include "tests/support/copy_side.hpp"
#include "tests/support/devices.hpp"
#include "tests/support/expect_error.hpp"
#include "tests/support/forwarding_device.hpp"
#include "tests/support/gate.hpp"

#include <sluice/runtime/copy.hpp>
#include <sluice/runtime/host_task.hpp>

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <type_traits>
#include <utility>
#include <vector>

namespace sluice::test {
namespace {

static_assert(!std::is_convertible_v<sluice::stream, stream_ref>, "it would name a retired stream");
static_assert(std::is_convertible_v<const sluice::stream&, stream_ref>);

/// Counts destroyed streams, and lets a test act between the begin of a synchronization and its
/// call of the device.
class watched_device final : public forwarding_device {
 public:
  explicit watched_device(std::shared_ptr<device> real) : forwarding_device(real->id(), real) {}

  std::function<void()> as_it_begins = [] {
  };
  std::atomic<int> destroyed{0};

  void synchronize(native_stream* s) override {
    as_it_begins();
    forwarding_device::synchronize(s);
  }
  void destroy_stream(native_stream* s) noexcept override {
    destroyed.fetch_add(1);
    forwarding_device::destroy_stream(s);
  }
};

TEST(retired_stream, stays_for_who_synchronises_it) {
  const auto device = std::make_shared<watched_device>(open_host_device());
  device_runtime runtime(device);
  auto going = runtime.create_stream();
  const auto ref = going.ref();
  bool done = false;
  gate closed;
  closed.hold(going);
  submit_host_task(going, [&] { done = true; });
  detail::timeline::of(ref)->reserve();
  (void)detail::timeline::of(ref)->submit();
  device->as_it_begins = [&] {
    going = {};
    EXPECT_EQ(device->destroyed.load(), 0) << "before it was synchronised";
    closed.open();
  };
  ref.synchronize();
  EXPECT_TRUE(done);
  EXPECT_EQ(device->destroyed.load(), 1);
  device->as_it_begins = [] {
    ADD_FAILURE() << "the stream has gone";
  };
  ref.synchronize();
  EXPECT_EQ(device->destroyed.load(), 1) << "once";
  device->as_it_begins = [] {
  };
}

TEST(retired_stream, is_synchronised_by_many_threads_while_it_goes) {
  device_runtime runtime(open_host_device());
  const auto stream = runtime.create_stream();
  const auto kept = runtime.allocate<float>(1, stream);
  for (int round = 0; round < 300; ++round) {
    auto going = runtime.create_stream();
    const auto ref = going.ref();
    std::atomic<int> ready{0};
    std::vector<std::thread> others;
    for (int t = 0; t < 2; ++t) {
      others.emplace_back([&] {
        ready.fetch_add(1);
        for (int i = 0; i < 5; ++i) ref.synchronize();
      });
    }
    await([&] { return ready.load() == 2; });
    going = {};
    for (auto& other : others) other.join();
  }
}

struct retired_end {
  std::string source;
  std::string target;
  bool one_runtime = false;
  bool of_target = true;  // whether the target's stream is retired, or the source's
};

class copies_on : public ::testing::TestWithParam<retired_end> {};

// The stream is retired between preflight and the copy itself.
TEST_P(copies_on, a_stream_that_goes_are_refused_and_leave_nothing) {
  const auto& p = GetParam();
  for (const auto& name : {p.source, p.target}) {
    if (!name.starts_with("pretended") && !has_device(name)) {
      GTEST_SKIP() << "this machine has no device '" << name << "'";
    }
  }
  side source(p.source);
  std::unique_ptr<side> another;
  if (!p.one_runtime) another = std::make_unique<side>(p.target);
  auto& target = another ? *another : source;
  auto& whose = p.of_target ? target : source;
  auto going = whose.runtime->create_stream();
  const auto ref = going.ref();
  bool launches = false;
  detail::runtime_core::of(*whose.runtime)->at_each_step([&](detail::launch_step step) {
    if (launches && step == detail::launch_step::fenced) going = {};
  });
  {
    const auto a = source.allocate(100);
    const auto b = target.allocate(100);
    (void)launch_fill(a, 1, source.stream);
    (void)launch_fill(b, 2, target.stream);
    target.stream.synchronize();
    launches = true;
    const auto target_stream = p.of_target ? ref : target.stream.ref();
    const auto source_stream = p.of_target ? source.stream.ref() : ref;
    EXPECT_TRUE(throws(errc::stream_misuse, "stream has been destroyed",
                       [&] { (void)enqueue_copy(b, target_stream, a, source_stream); }));
    EXPECT_FALSE(going) << "the launch was stopped";
    launches = false;
    for (const auto* s : {&source, &target}) {
      EXPECT_EQ(s->runtime->statistics().leases, 0u);
      EXPECT_FALSE(s->runtime->device().lost());
    }
    (void)enqueue_copy(b, target.stream, a, source.stream);
    EXPECT_EQ(download(b, target.stream), values(100, 1)) << "others can go on";
  }
  for (const auto* s : {&source, &target}) {
    s->stream.synchronize();
    s->other.synchronize();
    EXPECT_EQ(s->runtime->bytes_outstanding(), 0u);
  }
}

INSTANTIATE_TEST_SUITE_P(
    ends, copies_on,
    ::testing::Values(retired_end{"host", "host", true}, retired_end{"host", "host"},
                      retired_end{"host", "host", false, false},
                      retired_end{"pretended:0", "pretended:1"},
                      retired_end{"pretended:0", "pretended:1", false, false},
                      retired_end{"cuda", "cuda", true}, retired_end{"cuda", "cuda"},
                      retired_end{"cuda", "cuda", false, false}, retired_end{"host", "cuda"},
                      retired_end{"cuda", "host"}, retired_end{"host", "cuda", false, false},
                      retired_end{"cuda", "host", false, false}),
    [](const auto& tested) {
      const auto& p = tested.param;
      auto name = p.source + "_to_" + p.target + (p.one_runtime ? "_in_one_runtime" : "") +
                  (p.of_target ? "" : "_of_the_source");
      std::ranges::replace(name, ':', '_');
      return name;
    });

}  // namespace
}  // namespace sluice::test
