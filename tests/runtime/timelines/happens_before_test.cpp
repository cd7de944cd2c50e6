// SPDX-License-Identifier: Apache-2.0
// Signals after which a caller may use or destroy its own objects: they happen after every access
// of the runtime. Most of this only ThreadSanitizer can judge.
#include "runtime/core/runtime_core.hpp"
#include "tests/support/devices.hpp"
#include "tests/support/expect_error.hpp"
#include "tests/support/forwarding_device.hpp"
#include "tests/support/gate.hpp"
#include "tests/support/seed.hpp"
#include "tests/support/small_launches.hpp"

#include <sluice/runtime/device_runtime.hpp>
#include <sluice/runtime/host_device.hpp>
#include <sluice/runtime/memory_adaptors.hpp>
#include <sluice/runtime/memory_budget.hpp>
#include <sluice/runtime/memory_guard.hpp>
#include <sluice/runtime/releasable.hpp>

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>
#include <thread>
#include <utility>
#include <vector>

namespace sluice::test {
namespace {

using namespace std::chrono_literals;

/// Lets another thread continue, without ordering it.
class signal {
 public:
  void raise() { raised_.store(true, std::memory_order_relaxed); }
  void wait() const {
    await([this] { return raised_.load(std::memory_order_relaxed); });
  }

 private:
  std::atomic<bool> raised_{false};
};

class memory_of_the_caller : public device_test {
 protected:
  /// Queues a copy of `source()` to the device and from there to `target()`.
  timeline_point launch() {
    // A member, because freeing the block would make the runtime query its uses.
    a_ = runtime().allocate<std::uint32_t>(source_.size(), stream());
    auto recorder = begin_write(a_, stream());
    auto& device = runtime().device();
    device.copy(a_.data(), source_.data(), a_.bytes(), copy_direction::host_to_device,
                stream().native());
    device.copy(target_.data(), a_.data(), a_.bytes(), copy_direction::device_to_host,
                stream().native());
    return recorder.commit();
  }
  /// Accesses both buffers, as a caller may after the launch is reported complete.
  void expect_over() {
    EXPECT_EQ(target_, source_);
    std::ranges::fill(source_, 0U);
    std::ranges::fill(target_, 1U);
  }

 private:
  std::vector<std::uint32_t> source_ =
      std::vector<std::uint32_t>(1000, static_cast<std::uint32_t>(make_generator()()));
  std::vector<std::uint32_t> target_ = std::vector<std::uint32_t>(1000);
  gpu_ref<std::uint32_t> a_;
};
INSTANTIATE_TEST_SUITE_P(devices, memory_of_the_caller, every_device(), parameter_name);

TEST_P(memory_of_the_caller, is_free_when_its_launch_has_completed) {
  const auto last = launch();
  await([&] {
    runtime().reap_pending();
    return stream().completed(last.ticket);
  });
  expect_over();
}

TEST_P(memory_of_the_caller, is_free_when_the_runtime_has_shut_down) {
  (void)launch();
  EXPECT_TRUE(runtime().shut_down(600s));
  expect_over();
}

/// An object that uses an integer of the test, as the owner of a launch may.
class user final : public releasable {
 public:
  explicit user(int& destructions) : destructions_(destructions) {}
  ~user() override { ++destructions_; }

 private:
  int& destructions_;
};

TEST(what_launches_keep, has_gone_when_it_is_no_longer_counted) {
  device_runtime runtime(open_host_device());
  int destructions = 0;
  detail::runtime_core::of(runtime)->releases().push(new user(destructions));
  std::thread draining([&] { detail::runtime_core::of(runtime)->releases().drain(); });
  await([&] { return runtime.statistics().releases_pending == 0; });
  EXPECT_EQ(destructions, 1);
  draining.join();
}

TEST(what_launches_keep, has_gone_with_its_runtime_although_another_one_dropped_it) {
  struct slow_user final : releasable {
    slow_user(signal& i, const signal& g, const int& e) : inside(i), go_on(g), ended(e) {}
    ~slow_user() override {
      inside.raise();
      go_on.wait();
      EXPECT_EQ(ended, 0) << "the runtime has gone without waiting";
    }
    signal& inside;
    const signal& go_on;
    const int& ended;
  };
  const auto budget = std::make_shared<memory_budget>(4096);
  const auto device = open_host_device();
  const auto options = [&] {
    return runtime_options{.resource = make_budget_resource(make_async_resource(), budget),
                           .drain_timeout = 600s};
  };
  device_runtime short_of_memory(device, options());
  const auto stream = short_of_memory.create_stream();
  auto ending = std::make_unique<device_runtime>(device, options());
  signal inside;
  signal go_on;
  int ended = 0;
  const auto core = detail::runtime_core::of(*ending);
  core->releases().push(new slow_user(inside, go_on, ended));
  std::thread asking([&] {
    EXPECT_TRUE(
        throws(errc::over_budget, "", [&] { (void)short_of_memory.allocate_bytes(8192, stream); }));
  });
  inside.wait();
  std::thread ends([&] {
    ending.reset();
    ++ended;
  });
  await([&] { return core->closing(); });
  let_others_run(1000);
  go_on.raise();
  ends.join();
  asking.join();
}

TEST(what_a_guard_tells, has_been_told_when_it_is_counted) {
  int found = 0;
  const auto counters = std::make_shared<guard_counters>();
  device_runtime runtime(
      open_host_device(),
      {.resource = make_guard_resource(
           make_async_resource(),
           {.on_report = [&found](const guard_report&) { ++found; }, .counters = counters})});
  const auto stream = runtime.create_stream();
  {
    const auto block = runtime.allocate_bytes(10, stream);
    auto recorder = launch_recorder::strict(stream);
    recorder.use(block, access_kind::write, true);
    recorder.preflight();
    const std::uint8_t value = 1;
    runtime.device().fill(static_cast<std::byte*>(block.address()) + 10, &value, 1, 1,
                          stream.ref().native());
    (void)recorder.commit();
  }
  await([&] { return counters->reported == 1; });
  EXPECT_EQ(found, 1);
}

/// A host device that stops one thread in its access to a foreign stream.
class stopping_device final : public forwarding_device {
 public:
  enum class where : std::uint8_t { record, capturing };

  explicit stopping_device(where access)
      : forwarding_device({device_kind::host, 0}, open_host_device()), access_(access) {}
  /// Stops the calling thread at its first use of `foreign`.
  void stop_here(native_stream* foreign) {
    foreign_ = foreign;
    stops = true;
  }
  signal& reached() { return reached_; }
  signal& go_on() { return go_on_; }
  /// Notes that the owner of the stream may destroy it.
  void note_gone() { ++gone_; }

  void record(native_event* event, std::uint64_t value, native_stream* stream) override {
    pass(where::record, stream);
    real().record(event, value, stream);
  }
  bool capturing(native_stream* stream) noexcept override {
    pass(where::capturing, stream);
    return false;
  }

 private:
  void pass(where access, native_stream* stream) {
    if (!stops || access != access_ || stream != foreign_) return;
    stops = false;
    reached_.raise();
    go_on_.wait();
    EXPECT_EQ(gone_, 0) << "somebody else's stream is used although its owner has gone";
  }

  static thread_local bool stops;
  const where access_;
  native_stream* foreign_ = nullptr;  // for the thread that stops
  signal reached_;
  signal go_on_;
  int gone_ = 0;
};
thread_local bool stopping_device::stops = false;

TEST(an_adopted_stream, is_left_alone_when_its_owner_has_gone_while_the_runtime_ends) {
  using where = stopping_device::where;
  for (const auto access : {where::record, where::capturing}) {
    const auto device = std::make_shared<stopping_device>(access);
    auto runtime = std::make_unique<device_runtime>(device);
    auto* const foreign = device->create_stream(stream_priority::normal);
    auto adopted = runtime->adopt_stream(foreign);
    std::thread ends([&] {
      device->stop_here(foreign);
      runtime.reset();
    });
    device->reached().wait();
    device->go_on().raise();
    adopted = {};
    device->note_gone();
    device->destroy_stream(foreign);
    ends.join();
  }
}

}  // namespace
}  // namespace sluice::test
