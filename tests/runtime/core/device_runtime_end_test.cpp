// SPDX-License-Identifier: Apache-2.0
// The end of a runtime.
#include "runtime/core/runtime_core.hpp"
#include "runtime/reports/slow_wait.hpp"
#include "tests/runtime/core/device_runtime_test.hpp"
#include "tests/support/collected_reports.hpp"
#include "tests/support/compute_sanitizer.hpp"
#include "tests/support/devices.hpp"
#include "tests/support/expect_error.hpp"
#include "tests/support/gate.hpp"
#include "tests/support/small_launches.hpp"

#include <sluice/runtime/device_runtime.hpp>
#include <sluice/runtime/host_device.hpp>
#include <sluice/runtime/host_task.hpp>
#include <sluice/runtime/memory_guard.hpp>

#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <chrono>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

namespace sluice::test {
namespace {

using namespace std::chrono_literals;
using std::chrono::milliseconds;

TEST_P(runtime_on, shut_down_refuses_new_work) {
  const auto a = runtime().allocate<float>(16, stream());
  EXPECT_TRUE(runtime().shut_down(60s));
  EXPECT_TRUE(throws(errc::shutting_down, "", [&] { (void)runtime().create_stream(); }));
  EXPECT_TRUE(
      throws(errc::shutting_down, "", [&] { (void)runtime().allocate_bytes(16, stream()); }));
  EXPECT_TRUE(throws(errc::shutting_down, "",
                     [&] { (void)runtime().prepare_use(a.block(), stream(), access_kind::read); }));
  EXPECT_TRUE(
      throws(errc::shutting_down, "", [&] { (void)launch(stream(), a, access_kind::read); }));
  EXPECT_FALSE(runtime().device().lost());
  EXPECT_TRUE(runtime().shut_down(0ms)) << "once more is harmless";
}

TEST_P(runtime_on, shut_down_waits_for_what_is_in_flight) {
  const auto a = runtime().allocate<float>(16, stream());
  gate closed;
  closed.hold(stream());
  const auto point = launch(stream(), a, access_kind::write);
  std::atomic<bool> returned{false};
  std::thread closing([&] {
    EXPECT_TRUE(runtime().shut_down(600s));
    returned.store(true);
  });
  await([&] { return detail::runtime_core::of(runtime())->closing(); });
  EXPECT_FALSE(returned.load());
  closed.open();
  closing.join();
  EXPECT_TRUE(stream().completed(point.ticket));
}

TEST(shut_down, takes_as_long_as_it_takes) {
  device_runtime runtime(open_host_device());
  const auto s = runtime.create_stream();
  gate closed;
  closed.hold(s);
  detail::timeline::of(s.ref())->reserve();
  const auto ticket = detail::timeline::of(s.ref())->submit();
  std::thread opening([&] {
    await([&] { return detail::runtime_core::of(runtime)->closing(); });
    closed.open();
  });
  EXPECT_TRUE(runtime.shut_down(std::chrono::milliseconds::max()));
  opening.join();
  EXPECT_FALSE(runtime.device().lost());
  EXPECT_TRUE(s.ref().completed(ticket));
}

TEST(shut_down, of_a_destructor_takes_as_long_as_it_takes) {
  const auto device = open_host_device();
  gate closed;
  std::atomic<bool> done{false};
  std::thread opening;
  {
    device_runtime runtime(device, {.drain_timeout = std::chrono::milliseconds::max()});
    const auto s = runtime.create_stream();
    closed.hold(s);
    const auto a = runtime.allocate<float>(16, s);
    auto recorder = begin_write(a, s);
    submit_host_task(s, [&] { done.store(true); });
    recorder.commit();
    opening = std::thread([&, core = detail::runtime_core::of(runtime)] {
      await([&] { return core->closing(); });
      closed.open();
    });
  }
  opening.join();
  EXPECT_TRUE(done.load());
  EXPECT_FALSE(device->lost());
}

TEST(shut_down, declares_the_device_lost_when_its_time_is_over) {
  device_runtime runtime(open_host_device());
  const auto s = runtime.create_stream();
  const auto a = runtime.allocate<float>(16, s);
  gate closed;
  closed.hold(s);
  detail::timeline::of(s.ref())->reserve();
  (void)detail::timeline::of(s.ref())->submit();
  EXPECT_FALSE(runtime.shut_down(0ms));
  EXPECT_TRUE(runtime.device().lost());
  EXPECT_TRUE(throws(errc::device_lost, "the shutdown timed out",
                     [&] { (void)runtime.allocate_bytes(16, s); }));
}

TEST_P(runtime_on, what_is_freed_after_a_loss_is_lost_and_not_outstanding) {
  SLUICE_SKIP_UNDER_COMPUTE_SANITIZER("what a lost GPU held stays with it");
  device_runtime lost(open_device(GetParam()));
  const auto stream = lost.create_stream();
  (void)lost.allocate_bytes(100, stream);
  auto a = lost.allocate_bytes(1000, stream);
  const auto b = lost.allocate_bytes(200, stream);
  EXPECT_EQ(lost.statistics().bytes_lost, 0u);
  lost.device().lose(error(errc::device_lost, "for this test"));
  EXPECT_EQ(lost.statistics().bytes_lost, 0u) << "it is in somebody's hands";
  a = {};
  EXPECT_EQ(lost.statistics().bytes_lost, 1000u);
  EXPECT_EQ(lost.statistics().bytes_outstanding, 200u);
}

TEST_P(runtime_on, references_and_streams_may_outlive_it) {
  auto owned = std::make_unique<device_runtime>(open_device(GetParam()));
  auto own_stream = owned->create_stream();
  auto a = owned->allocate<float>(16, own_stream, "kept");
  const auto id = a.block().id();
  (void)launch(own_stream, a, access_kind::write);
  auto recorder = launch_recorder::strict(own_stream);
  recorder.read(a);
  const collected_reports reports;
  owned.reset();
  EXPECT_TRUE(a.stale());
  EXPECT_EQ(a.block().id(), id);
  EXPECT_EQ(a.block().tag().name(), "kept");
  EXPECT_EQ(own_stream.id().index, 2u);
  EXPECT_TRUE(throws(errc::shutting_down, "", [&] { recorder.preflight(); }));
  const auto copy = a;
  a = {};
  own_stream = {};
  EXPECT_EQ(reports.text(), "");
}

TEST_P(runtime_on, recorders_do_not_count_on_what_all_threads_share) {
  device_runtime runtime(open_device(GetParam()));
  const auto s = runtime.create_stream();
  const auto shares = detail::runtime_core::of(runtime).use_count();
  const auto recorder = launch_recorder::strict(s);
  EXPECT_EQ(detail::runtime_core::of(runtime).use_count(), shares);
}

TEST_P(runtime_on, recorders_without_uses_may_outlive_it_and_its_streams) {
  auto owned = std::make_unique<device_runtime>(open_device(GetParam()));
  const std::weak_ptr<detail::runtime_core> core = detail::runtime_core::of(*owned);
  auto own_stream = owned->create_stream();
  std::optional<launch_recorder> before(launch_recorder::strict(own_stream));
  std::optional<launch_recorder> other(launch_recorder::permissive(own_stream));
  owned.reset();
  std::optional<launch_recorder> after(launch_recorder::strict(own_stream));
  const auto id = own_stream.id();
  own_stream = {};
  for (auto* last : {&before, &after, &other}) {
    EXPECT_FALSE(core.expired());
    EXPECT_EQ((*last)->launch_stream(), id);
    (*last)->preflight();
    EXPECT_FALSE((*last)->commit());
    last->reset();
  }
  EXPECT_TRUE(core.expired());
}

TEST_P(runtime_on, may_end_while_recorders_begin_and_end_on_other_threads) {
  for (int round = 0; round < 20; ++round) {
    auto owned = std::make_unique<device_runtime>(open_device(GetParam()));
    const std::weak_ptr<detail::runtime_core> core = detail::runtime_core::of(*owned);
    constexpr int count = 3;
    std::array<sluice::stream, count> streams;
    for (auto& s : streams) s = owned->create_stream();
    auto shared = owned->create_stream();
    std::atomic<int> started{0};
    std::atomic<bool> ended{false};
    std::vector<std::thread> threads;
    for (auto& thread_stream : streams) {
      threads.emplace_back([&, s = std::move(thread_stream)] {
        std::optional<launch_recorder> last;
        for (int after = 0; after < 3;) {
          last.emplace(launch_recorder::strict(s));
          (void)launch_recorder::strict(shared).recorded_count();
          if (started.fetch_add(1) > 10 * count && ended.load()) ++after;
        }
      });
    }
    await([&] { return started.load() > count; });
    owned.reset();
    ended.store(true);
    for (auto& thread : threads) thread.join();
    shared = {};
    EXPECT_TRUE(core.expired());
  }
}

TEST_P(runtime_on, a_recorder_with_leases_may_outlive_it) {
  using make_resource = std::unique_ptr<memory_resource> (*)();
  for (const make_resource make :
       {make_resource([] { return make_async_resource(); }),
        make_resource([] { return make_direct_resource({.tracked = true}); }),
        make_resource([] { return make_pool_resource(make_async_resource()); }), make_resource([] {
          return make_pool_resource(make_direct_resource({.tracked = true}));
        })}) {
    auto owned = std::make_unique<device_runtime>(
        open_device(GetParam()), runtime_options{.resource = make(), .drain_timeout = 100ms});
    auto own_stream = owned->create_stream();
    (void)owned->allocate<float>(16, own_stream, "pooled");
    auto a = owned->allocate<float>(16, own_stream, "kept");
    const collected_reports reports;
    {
      auto recorder = begin_write(a, own_stream);
      owned.reset();
      EXPECT_TRUE(a.stale());
    }
    const auto said = reports.text();
    EXPECT_NE(said.find("still uses memory"), std::string::npos) << said;
    EXPECT_NE(said.find("between preflight and commit"), std::string::npos) << said;
    EXPECT_EQ(detail::block_record::of(a.block())->core->statistics().blocks, 0u);
    // The core is destroyed with the last of them.
    own_stream = {};
    a = {};
  }
}

/// Ends a runtime on a thread of its own, with slow waits reported at once.
class ending_runtime {
 public:
  explicit ending_runtime(std::unique_ptr<device_runtime> ending) {
    detail::slow_wait::set_patience(0ms);
    thread_ = std::thread([this, owned = std::move(ending)]() mutable {
      owned.reset();
      ended_.store(true);
    });
  }
  ending_runtime(const ending_runtime&) = delete;
  ending_runtime& operator=(const ending_runtime&) = delete;
  ~ending_runtime() {
    thread_.join();
    detail::slow_wait::set_patience(3000ms);
  }
  /// Waits for the report that the end waits for `text`. Returns false if the runtime ends first.
  [[nodiscard]] bool waits_for(const std::string& text) const {
    bool said = false;
    await([&] {
      const bool ended = ended_.load();
      said = reports_.text().find(text) != std::string::npos;
      return said || ended;
    });
    return said;
  }

 private:
  collected_reports reports_;
  std::atomic<bool> ended_{false};
  std::thread thread_;
};

// The memory is freed on the stream of the launch, so no free waits for the launch.
TEST(end_of_a_runtime, waits_for_a_launch_that_is_committed_after_the_drain) {
  const auto device = open_host_device();
  auto owned = std::make_unique<device_runtime>(
      device,
      runtime_options{.resource = make_async_resource(), .drain_timeout = milliseconds::max()});
  const auto s = owned->create_stream();
  const auto a = owned->allocate<float>(16, s);
  gate closed;
  std::atomic<bool> done{false};
  {
    auto recorder = begin_write(a, s);
    const ending_runtime end(std::move(owned));
    EXPECT_TRUE(end.waits_for("a launch between preflight and commit"));
    closed.hold(s);
    submit_host_task(s, [&] { done.store(true); });
    (void)recorder.commit();
    EXPECT_TRUE(end.waits_for("unfinished launches on 1 stream"));
    closed.open();
  }
  EXPECT_TRUE(done.load());
  EXPECT_FALSE(device->lost());
}

TEST(end_of_a_runtime, waits_for_a_launch_without_memory_that_is_being_made) {
  const auto device = open_host_device();
  auto owned = std::make_unique<device_runtime>(
      device, runtime_options{.drain_timeout = milliseconds::max()});
  const auto s = owned->create_stream();
  auto& line = *detail::timeline::of(s.ref());
  line.reserve();
  {
    const ending_runtime end(std::move(owned));
    EXPECT_TRUE(end.waits_for("a launch between preflight and commit"));
    EXPECT_NO_THROW((void)line.submit());
  }
  EXPECT_FALSE(device->lost());
}

class runtime_with : public ::testing::TestWithParam<std::unique_ptr<memory_resource> (*)()> {};
INSTANTIATE_TEST_SUITE_P(resources, runtime_with,
                         ::testing::Values([] { return make_default_resource(); },
                                           [] { return make_direct_resource({.tracked = true}); },
                                           [] {
                                             return make_guard_resource(make_async_resource());
                                           }));

TEST_P(runtime_with, ends_although_a_late_launch_does_not) {
  auto owned = std::make_unique<device_runtime>(
      open_host_device(), runtime_options{.resource = GetParam()(), .drain_timeout = 500ms});
  const auto core = detail::runtime_core::of(*owned);
  auto s = owned->create_stream();
  auto elsewhere = owned->create_stream();
  auto a = owned->allocate<float>(16, s);
  gate closed;
  auto recorder = begin_write(a, elsewhere);
  std::thread ending([&] { owned.reset(); });
  // The drain is over: the end of the runtime is freeing blocks.
  await([&] { return a.stale(); });
  closed.hold(elsewhere);
  (void)recorder.commit();  // the free now waits for unfinished work
  ending.join();
  closed.open();
  EXPECT_EQ(core->statistics().blocks, 0u);
}

TEST_P(runtime_on, dropping_references_on_other_threads_may_meet_its_end) {
  for (int round = 0; round < 20; ++round) {
    auto owned = std::make_unique<device_runtime>(open_device(GetParam()));
    const auto stream = owned->create_stream();
    std::vector<block_ref> refs;
    for (int i = 0; i < 50; ++i) refs.push_back(owned->allocate_bytes(256, stream));
    std::atomic<bool> go{false};
    std::thread dropping([&] {
      await([&] { return go.load(); });
      refs.clear();
    });
    go.store(true);
    owned.reset();
    dropping.join();
  }
}

// Frees of the reclaim thread take tickets too. The end waits for them, but not as for launches.
TEST_P(runtime_on, a_reservation_of_the_reclaim_thread_is_no_launch) {
  collected_reports reports;
  auto owned = std::make_unique<device_runtime>(open_device(GetParam()),
                                                runtime_options{.drain_timeout = 100ms});
  const auto core = detail::runtime_core::of(*owned);
  const point_reservation place(core->reclaim_stream());
  owned.reset();
  EXPECT_EQ(reports.text(), "");
}

// A task may hold the last owner of the device; its stream's thread then destroys the device.
TEST(runtime_of_the_host, may_end_on_a_thread_of_its_own_device) {
  std::weak_ptr<device> open;
  {
    auto device = open_host_device();
    open = device;
    gate closed;
    auto owned = std::make_unique<device_runtime>(device);
    device.reset();
    const auto s = owned->create_stream();
    auto a = owned->allocate_bytes(16, s);
    closed.hold(s);
    submit_host_task(s, [held = std::move(a)] { (void)held; });
    owned.reset();
  }
  await([&] { return open.expired(); });
}

TEST_P(runtime_on, its_destructor_frees_what_is_left) {
  auto device = open_device(GetParam());
  auto owned = std::make_unique<device_runtime>(
      device, runtime_options{.resource = make_direct_resource({.tracked = true})});
  auto own_stream = owned->create_stream();
  const auto a = owned->allocate_bytes(1 << 20, own_stream);
  const auto core = detail::runtime_core::of(*owned);
  owned.reset();
  EXPECT_TRUE(a.stale());
  EXPECT_EQ(core->statistics().bytes_outstanding, 0u);
  EXPECT_EQ(core->statistics().streams, 0u);
  EXPECT_FALSE(device->lost());
}

}  // namespace
}  // namespace sluice::test
