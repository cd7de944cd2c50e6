// SPDX-License-Identifier: Apache-2.0
// The guard on a device that fails or is lost, and the resources that it refuses.
#include "runtime/core/runtime_core.hpp"
#include "tests/support/expect_error.hpp"
#include "tests/support/gate.hpp"

#include <sluice/runtime/host_device.hpp>
#include <sluice/runtime/launch_recorder.hpp>
#include <sluice/runtime/memory_adaptors.hpp>
#include <sluice/runtime/memory_guard.hpp>

#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <limits>
#include <memory>
#include <vector>

namespace sluice::test {
namespace {

constexpr auto most = std::numeric_limits<std::size_t>::max();

TEST(guard, takes_what_it_could_not_fill_or_read_for_unchecked) {
  // Copies 1 to 3 are fills of the guard, 4 is the overrun, 5 and 6 are reads, 7 is a fill.
  for (const std::uint64_t nth : {1U, 2U, 3U, 5U, 6U, 7U}) {
    const auto script = std::make_shared<fault_script>();
    const auto counters = std::make_shared<guard_counters>();
    const auto below = std::make_shared<memory_statistics>();
    {
      device_runtime runtime(
          open_host_device({.faults = script}),
          {.resource = make_guard_resource(
               make_statistics_resource(make_async_resource(), below),
               {.on_report = [](const guard_report&) {}, .counters = counters})});
      const auto stream = runtime.create_stream();
      script->fail_nth(fault_target::copy, nth);
      auto block = runtime.allocate_bytes(100, stream, "unfilled");
      auto recorder = launch_recorder::strict(stream);
      recorder.use(block, access_kind::write, true);
      recorder.preflight();
      const std::uint8_t value = 1;
      runtime.device().fill(static_cast<std::byte*>(block.address()) + 100, &value, 1, 5,
                            stream.ref().native());
      (void)recorder.commit();
      auto* reclaim = detail::timeline::of(detail::runtime_core::of(runtime)->reclaim_stream());
      const auto before = reclaim->newest().ticket;
      block = {};
      reclaim->wait_until(before + 1);  // before the end of the runtime, which keeps no memory
    }
    EXPECT_EQ(counters->unchecked, 1u) << nth;
    EXPECT_EQ(counters->checked, 0u) << nth;
    EXPECT_EQ(counters->reported, 0u) << nth;
    EXPECT_EQ(below->counters().bytes.current, 0u) << nth;
  }
}

TEST(guard, lets_a_lost_device_be) {
  for (std::uint64_t nth = 1; nth < 40; ++nth) {
    const auto script = std::make_shared<fault_script>();
    const auto counters = std::make_shared<guard_counters>();
    {
      device_runtime runtime(
          open_host_device({.faults = script}),
          {.resource = make_guard_resource(make_direct_resource({.tracked = true}),
                                           {.quarantine_blocks = 1, .counters = counters})});
      const auto stream = runtime.create_stream();
      script->fail_nth(fault_target::loss, nth);
      std::vector<block_ref> blocks;
      try {
        for (int i = 0; i < 8; ++i) {
          blocks.push_back(runtime.allocate_bytes(100, stream, "going"));
          if (i % 2 == 0) blocks.clear();
        }
        (void)runtime.trim_memory();
      } catch (const error& e) {
        EXPECT_EQ(e.code(), errc::device_lost);
      }
    }
    EXPECT_EQ(counters->reported, 0u);
  }
}

TEST(guard, lets_a_device_be_that_is_lost_behind_a_closed_gate) {
  const auto counters = std::make_shared<guard_counters>();
  {
    device_runtime runtime(
        open_host_device(),
        {.resource = make_guard_resource(make_async_resource(), {.counters = counters})});
    const auto stream = runtime.create_stream();
    gate closed;
    closed.hold(stream);
    for (int i = 0; i < 10; ++i) (void)runtime.allocate_bytes(1000, stream);
    runtime.device().lose(error(errc::device_lost, "pulled out"));
    closed.open();
  }
  EXPECT_EQ(counters->unchecked, 10u);
  EXPECT_EQ(counters->checked, 0u);
}

// The callback may wait for a lock, whose holder may wait for a lease.
TEST(guard, reports_a_stale_use_after_the_launch_has_returned_its_leases) {
  for (const bool reused : {false, true}) {
    device_runtime* guarded_runtime = nullptr;
    std::vector<std::size_t> leases;  // at each report
    device_runtime runtime(
        open_host_device(),
        {.resource = make_guard_resource(make_async_resource(), {.on_report = [&](const auto&) {
                                           leases.push_back(guarded_runtime->statistics().leases);
                                         }})});
    guarded_runtime = &runtime;
    const auto stream = runtime.create_stream();
    std::vector<block_ref> blocks{runtime.allocate_bytes(100, stream),
                                  runtime.allocate_bytes(100, stream)};
    std::ranges::sort(blocks, std::less<>(),
                      [](const block_ref& block) { return detail::block_record::of(block); });
    block_ref next;
    int requests = 0;
    detail::runtime_core::of(runtime)->at_each_step([&](detail::launch_step step) {
      if (step != detail::launch_step::leasing || ++requests != 2) return;
      EXPECT_EQ(runtime.statistics().leases, 1u);
      if (!reused) return runtime.deallocate(blocks[1]);
      const auto* const record = detail::block_record::of(blocks[1]);
      blocks[1] = {};
      next = runtime.allocate_bytes(100, stream);
      EXPECT_EQ(detail::block_record::of(next), record) << "another block has the lease";
    });
    auto recorder = launch_recorder::strict(stream);
    for (const auto& block : blocks) recorder.use(block, access_kind::read, true);
    EXPECT_TRUE(throws(errc::stale_ref, "", [&] { recorder.preflight(); }));
    EXPECT_EQ(leases, std::vector<std::size_t>{0}) << reused;
  }
}

TEST(guard, refuses_what_it_cannot_work_with) {
  EXPECT_TRUE(throws(errc::invalid_argument, "make_guard_resource: upstream must not be null",
                     [] { (void)make_guard_resource(nullptr); }));
  EXPECT_TRUE(throws(errc::invalid_argument, "'direct' does not track",
                     [] { (void)make_guard_resource(make_direct_resource()); }));
  constexpr auto largest = std::size_t{1} << 30U;
  // Twice some of these sizes overflows to 0 or to a small number.
  for (const std::size_t size :
       {std::size_t{0}, std::size_t{1}, std::size_t{255}, std::size_t{257}, std::size_t{384},
        largest + 256, std::size_t{1} << 62U, std::size_t{1} << 63U, (std::size_t{1} << 63U) + 256,
        most - 255}) {
    EXPECT_TRUE(throws(errc::invalid_argument, "red_zone", [&] {
      (void)make_guard_resource(make_async_resource(), {.red_zone = size});
    })) << size;
  }
  EXPECT_NO_THROW((void)make_guard_resource(make_async_resource(), {.red_zone = largest}));
}

TEST(guard, has_no_room_for_zones_around_what_fills_all_addresses) {
  for (const std::size_t zone : {std::size_t{256}, std::size_t{1} << 20U}) {
    device_runtime runtime(open_host_device(), {.resource = make_guard_resource(
                                                    make_async_resource(), {.red_zone = zone})});
    const auto stream = runtime.create_stream();
    for (const auto bytes : {most, most - 2 * zone + 1}) {
      EXPECT_TRUE(throws(errc::out_of_memory, "red zones around",
                         [&] { (void)runtime.allocate_bytes(bytes, stream); }));
    }
    EXPECT_TRUE(throws(errc::out_of_memory, "",
                       [&] { (void)runtime.allocate_bytes(most - 2 * zone, stream); }));
  }
}

}  // namespace
}  // namespace sluice::test
