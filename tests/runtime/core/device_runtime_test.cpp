// SPDX-License-Identifier: Apache-2.0
#include "tests/runtime/core/device_runtime_test.hpp"

#include "tests/support/devices.hpp"
#include "tests/support/expect_error.hpp"
#include "tests/support/gate.hpp"
#include "tests/support/use_state.hpp"

#include <sluice/runtime/device_runtime.hpp>
#include <sluice/runtime/host_device.hpp>

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <memory>
#include <thread>
#include <utility>
#include <vector>

namespace sluice::test {
namespace {

using namespace std::chrono_literals;

INSTANTIATE_TEST_SUITE_P(devices, runtime_on, every_device(), parameter_name);

// The shared runtimes of the process. A single test, because they exist until the process ends.

TEST(shared_runtimes, are_made_once_by_one_thread_and_again_after_a_failure) {
  const device_id host{device_kind::host, 0};
  EXPECT_TRUE(throws(errc::invalid_argument, "tpu", [] { (void)device_runtime::get("tpu"); }));
  EXPECT_TRUE(
      throws(errc::invalid_argument, "host:7", [] { (void)device_runtime::get("host:7"); }));

  constexpr int threads = 8;
  std::atomic<int> calls{0};
  std::atomic<int> arrived{0};
  std::atomic<int> refused{0};
  std::atomic<int> served{0};
  device_runtime::configure(host, [&]() -> runtime_options {
    const auto call = calls.fetch_add(1);
    if (call != 0) {
      // The build does not end before all threads have arrived.
      await([&] { return arrived.load() == threads; });
      EXPECT_EQ(served.load(), 0);
    }
    if (call < 2) throw error(errc::out_of_memory, "not yet");
    // Only the thread of the failed build has returned; the other threads wait for this build.
    await([&] { return refused.load() == 1; });
    EXPECT_EQ(calls.load(), 3);
    return {.resource = make_direct_resource({.tracked = true}), .drain_timeout = 5s};
  });
  EXPECT_TRUE(throws(errc::out_of_memory, "not yet", [] { (void)device_runtime::get("host"); }));

  std::vector<device_runtime*> got(threads, nullptr);
  std::vector<std::thread> callers;
  for (int i = 0; i < threads; ++i) {
    callers.emplace_back([&, i] {
      arrived.fetch_add(1);
      try {
        got[static_cast<std::size_t>(i)] = &device_runtime::get(i % 2 == 0 ? "host" : "host:0");
        served.fetch_add(1);
      } catch (const error& e) {
        EXPECT_EQ(e.code(), errc::out_of_memory);
        refused.fetch_add(1);
      }
    });
  }
  for (auto& caller : callers) caller.join();
  EXPECT_EQ(calls.load(), 3) << "alone, the first of the threads, and another one of them";
  EXPECT_EQ(refused.load(), 1) << "only the thread whose own build failed";
  EXPECT_EQ(served.load(), threads - 1);
  for (auto* runtime : got) {
    EXPECT_TRUE(runtime == nullptr || runtime == &device_runtime::get("host"));
  }
  EXPECT_EQ(detail::runtime_core::of(device_runtime::get("host"))->resource().name(), "direct");
  EXPECT_EQ(device_runtime::get("host").device().id(), host);
  EXPECT_TRUE(throws(errc::stream_misuse, "already exists",
                     [&] { device_runtime::configure(host, [] { return runtime_options{}; }); }));

  auto& best = device_runtime::get("auto");
  EXPECT_EQ(&device_runtime::get(), &best);
  EXPECT_EQ(&device_runtime::get(to_string(best.device().id())), &best);
}

// Owned runtimes

TEST(runtime_of_no_device, is_refused) {
  EXPECT_TRUE(throws(errc::invalid_argument, "device must not be null",
                     [] { device_runtime none(nullptr); }));
}

TEST(runtime_of_a_lost_device, is_refused) {
  auto device = open_host_device();
  device->lose(error(errc::library_failure, "smoke"));
  EXPECT_TRUE(throws(errc::device_lost, "smoke", [&] { device_runtime none(device); }));
}

TEST_P(runtime_on, statistics_return_to_where_they_began) {
  const auto begin = runtime().statistics();
  EXPECT_EQ(begin.bytes_outstanding, 0u);
  EXPECT_EQ(begin.blocks, 0u);
  EXPECT_EQ(begin.leases, 0u);
  EXPECT_EQ(begin.releases_pending, 0u);
  EXPECT_EQ(begin.launches, 0u);
  EXPECT_EQ(begin.recorders_abandoned, 0u);
  {
    const auto second = runtime().create_stream();
    const auto a = runtime().allocate<float>(100, stream(), "a");
    const auto b = runtime().allocate<float>(50, second, "b");
    auto recorder = launch_recorder::strict(second);
    recorder.read(a).write(b);
    recorder.preflight();
    const auto during = runtime().statistics();
    EXPECT_EQ(during.leases, 2u);
    EXPECT_EQ(during.blocks, 2u);
    EXPECT_EQ(during.bytes_outstanding, 600u);
    EXPECT_EQ(during.streams, begin.streams + 1);
    EXPECT_GT(during.events, begin.events);
    (void)recorder.commit();
  }
  const auto end = runtime().statistics();
  EXPECT_EQ(end.bytes_outstanding, 0u);
  EXPECT_EQ(end.peak_bytes, 600u);
  EXPECT_EQ(end.blocks, 0u);
  EXPECT_EQ(end.leases, 0u);
  EXPECT_EQ(end.streams, begin.streams);
  EXPECT_GE(end.launches, 3u);
}

// Statistics stay within their possible range while blocks are allocated and freed concurrently.
// ThreadSanitizer checks the accesses.
TEST_P(runtime_on, statistics_may_be_asked_for_while_others_allocate_and_launch) {
  constexpr std::size_t threads = 3;
  constexpr std::size_t at_once = 8;
  const auto before = runtime().statistics();
  std::atomic<std::size_t> done{0};
  std::vector<std::thread> users;
  for (std::size_t t = 0; t < threads; ++t) {
    users.emplace_back([&] {
      const auto thread_stream = runtime().create_stream();
      for (int round = 0; round < 200; ++round) {
        std::vector<gpu_ref<float>> blocks;
        for (std::size_t i = 0; i < at_once; ++i) {
          blocks.push_back(runtime().allocate<float>(100, thread_stream));
          (void)launch(thread_stream, blocks.back(), access_kind::write);
        }
      }
      ++done;
    });
  }
  while (done != threads) {
    const auto now = runtime().statistics();
    EXPECT_LE(now.blocks, before.blocks + threads * at_once);
    EXPECT_LE(now.references, before.references + threads * at_once);
    EXPECT_LE(now.bytes_outstanding, before.bytes_outstanding + threads * at_once * 400);
    EXPECT_LE(now.peak_bytes, before.peak_bytes + threads * at_once * 400);
  }
  for (auto& user : users) user.join();
  const auto after = runtime().statistics();
  EXPECT_EQ(after.blocks, before.blocks);
  EXPECT_EQ(after.references, before.references);
  EXPECT_EQ(after.points, before.points);
  EXPECT_EQ(after.bytes_outstanding, before.bytes_outstanding);
  EXPECT_GE(after.peak_bytes, before.bytes_outstanding + at_once * 400);
}

// A request for more memory than the device has is refused without releasing anything, because a
// release could not help.
TEST_P(runtime_on, what_is_refused_was_never_outstanding) {
  struct owner final : releasable {
    block_ref held;
  };
  auto* last = new owner;
  last->held = runtime().allocate_bytes(60'000, stream());
  detail::runtime_core::of(runtime())->releases().push(last);
  const auto before = runtime().statistics();
  EXPECT_TRUE(throws(errc::out_of_memory, "",
                     [&] { (void)runtime().allocate_bytes(std::size_t{1} << 60U, stream()); }));
  const auto after = runtime().statistics();
  EXPECT_EQ(after.peak_bytes, before.peak_bytes);
  EXPECT_EQ(after.bytes_outstanding, before.bytes_outstanding);
  EXPECT_EQ(after.blocks, before.blocks);
  EXPECT_EQ(after.releases_pending, before.releases_pending);
}

TEST_P(runtime_on, drops_the_owners_of_completed_launches_when_it_is_asked_to) {
  struct owner final : releasable {
    explicit owner(block_ref block) : held(std::move(block)) {}
    block_ref held;
  };
  auto a = runtime().allocate_bytes(100, stream());
  detail::runtime_core::of(runtime())->releases().push(new owner(a));
  auto b = runtime().allocate_bytes(10, stream());
  detail::runtime_core::of(runtime())->releases().push(new owner(b));
  a = {};
  b = {};
  EXPECT_EQ(runtime().statistics().releases_pending, 2u);
  EXPECT_EQ(runtime().statistics().bytes_outstanding, 110u);
  EXPECT_EQ(runtime().bytes_outstanding(), 0u) << "it drains the release list";
  EXPECT_EQ(runtime().statistics().releases_pending, 0u);
  detail::runtime_core::of(runtime())->releases().push(
      new owner(runtime().allocate_bytes(1, stream())));
  runtime().reap_pending();
  EXPECT_EQ(runtime().statistics().blocks, 0u);
}

// Uses outside of recorders

TEST_P(runtime_on, prepare_and_finish_order_and_publish_a_use) {
  const auto a = runtime().allocate<float>(16, stream());
  const auto elsewhere = runtime().create_stream();
  gate closed;
  closed.hold(stream());
  const auto written = launch(stream(), a, access_kind::write);

  const auto prepared = runtime().prepare_use(a.block(), elsewhere, access_kind::read);
  EXPECT_TRUE(waits_for(elsewhere.ref(), stream(), written.ticket))
      << "the wait has not been queued";
  const auto point = runtime().finish_use(a.block(), elsewhere, access_kind::read, prepared);
  EXPECT_EQ(point.stream, elsewhere.id());
  EXPECT_TRUE(uses_of(a).holds(point));
  EXPECT_EQ(uses_of(a).last_write, written);

  const auto writing = runtime().prepare_use(a.block(), elsewhere, access_kind::write);
  const auto second = runtime().finish_use(a.block(), elsewhere, access_kind::write, writing);
  EXPECT_EQ(uses_of(a).last_write, second);
  EXPECT_TRUE(uses_of(a).holds(written)) << "it adds and clears nothing";
  EXPECT_EQ(runtime().statistics().leases, 0u);
}

TEST_P(runtime_on, finish_reports_a_use_that_came_between) {
  const auto a = runtime().allocate<float>(16, stream());
  const auto elsewhere = runtime().create_stream();
  gate closed;
  closed.hold(stream());
  const auto prepared = runtime().prepare_use(a.block(), elsewhere, access_kind::write);
  const auto between = launch(stream(), a, access_kind::write);
  const auto before = detail::timeline::of(elsewhere.ref())->newest().ticket;
  EXPECT_TRUE(throws(errc::stream_misuse, "another use", [&] {
    (void)runtime().finish_use(a.block(), elsewhere, access_kind::write, prepared);
  }));
  // Both uses are protected from later ones.
  EXPECT_EQ(uses_of(a).last_write, (timeline_point{elsewhere.id(), before + 1}));
  EXPECT_TRUE(uses_of(a).holds(between));
}

TEST_P(runtime_on, finish_reports_a_use_that_was_prepared_for_another_stream) {
  const auto a = runtime().allocate<float>(16, stream());
  const auto elsewhere = runtime().create_stream();
  const auto prepared = runtime().prepare_use(a.block(), elsewhere, access_kind::write);
  const auto finish = [&](use_ticket ticket) {
    (void)runtime().finish_use(a.block(), stream(), access_kind::write, ticket);
  };
  EXPECT_TRUE(throws(errc::stream_misuse, "another stream", [&] { finish(prepared); }));
  EXPECT_TRUE(throws(errc::stream_misuse, "another stream", [&] { finish({}); }));
  EXPECT_EQ(uses_of(a).last_write, detail::timeline::of(stream())->newest()) << "it was published";
}

TEST_P(runtime_on, finish_reports_a_use_that_was_prepared_for_another_block) {
  std::vector<gpu_ref<float>> kept;  // keeps the records in use, so that later blocks have new ones
  for (const auto access : {access_kind::read, access_kind::write, access_kind::read_write}) {
    const auto a = kept.emplace_back(runtime().allocate<float>(16, stream(), "prepared"));
    const auto b = kept.emplace_back(runtime().allocate<float>(16, stream(), "finished"));
    const auto of_a = uses_of(a);
    ASSERT_EQ(of_a.version, uses_of(b).version) << "only the block tells them apart";
    const auto prepared = runtime().prepare_use(a.block(), stream(), access);
    EXPECT_TRUE(throws(errc::stream_misuse, "another block, not for memory 'finished'",
                       [&] { (void)runtime().finish_use(b.block(), stream(), access, prepared); }));
    EXPECT_TRUE(uses_of(b).holds(detail::timeline::of(stream())->newest())) << "it was published";
    EXPECT_EQ(uses_of(a).version, of_a.version) << "it was published of the other one";
  }
}

// The other block was freed, and the new one has its record.
TEST_P(runtime_on, finish_reports_a_use_that_was_prepared_for_an_earlier_block) {
  auto a = runtime().allocate<float>(16, stream());
  const auto* const record = detail::block_record::of(a.block());
  const auto prepared = runtime().prepare_use(a.block(), stream(), access_kind::write);
  a = {};
  const auto b = runtime().allocate<float>(16, stream());
  ASSERT_EQ(detail::block_record::of(b.block()), record);
  EXPECT_TRUE(throws(errc::stream_misuse, "another block", [&] {
    (void)runtime().finish_use(b.block(), stream(), access_kind::write, prepared);
  }));
  EXPECT_EQ(uses_of(b).last_write, detail::timeline::of(stream())->newest()) << "it was published";
}

TEST_P(runtime_on, finish_reports_a_use_that_was_prepared_for_another_access) {
  const auto a = runtime().allocate<float>(16, stream());
  for (const auto prepared : {access_kind::read, access_kind::write, access_kind::read_write}) {
    for (const auto finished : {access_kind::read, access_kind::write, access_kind::read_write}) {
      const auto ticket = runtime().prepare_use(a.block(), stream(), prepared);
      const auto finish = [&] {
        return runtime().finish_use(a.block(), stream(), finished, ticket);
      };
      if (prepared == finished) {
        EXPECT_NO_THROW((void)finish());
      } else {
        EXPECT_TRUE(throws(errc::stream_misuse, "another access", [&] { (void)finish(); }));
      }
      const auto point = detail::timeline::of(stream())->newest();
      EXPECT_TRUE(uses_of(a).holds(point)) << "it was published";
      if (finished != access_kind::read) {
        EXPECT_EQ(uses_of(a).last_write, point);
      }
    }
  }
}

// At least one side of each pair of racing uses reports the race.
TEST_P(runtime_on, finish_misses_no_use_of_another_thread) {
  const auto a = runtime().allocate<float>(16, stream());
  const auto second = runtime().create_stream();
  for (int round = 0; round < 200; ++round) {
    const auto mine = runtime().prepare_use(a.block(), stream(), access_kind::write);
    const auto theirs = runtime().prepare_use(a.block(), second, access_kind::write);
    std::atomic<int> arrived{0};
    std::atomic<int> reports{0};
    const auto finish = [&](stream_ref stream, use_ticket ticket) {
      arrived.fetch_add(1);
      await([&] { return arrived.load() == 2; });
      try {
        (void)runtime().finish_use(a.block(), stream, access_kind::write, ticket);
      } catch (const error&) {
        reports.fetch_add(1);
      }
    };
    std::thread other([&] { finish(second, theirs); });
    finish(stream(), mine);
    other.join();
    ASSERT_EQ(reports.load(), 1);
  }
}

TEST_P(runtime_on, record_use_publishes_without_preparation) {
  const auto a = runtime().allocate<float>(16, stream());
  const auto elsewhere = runtime().create_stream();
  gate closed;
  closed.hold(elsewhere);
  const auto read = runtime().record_use(a.block(), elsewhere, access_kind::read);
  EXPECT_TRUE(uses_of(a).holds(read));
  // A later writer waits for it.
  (void)launch(stream(), a, access_kind::write);
  EXPECT_TRUE(waits_for(stream(), elsewhere.ref(), read.ticket));
  closed.open();
}

// Such a use takes no lease, so it can be published between another launch's preflight, which did
// not wait for it, and commit.
TEST_P(runtime_on, a_use_that_is_published_during_a_launch_is_not_forgotten) {
  const auto first = runtime().create_stream();
  const auto second = runtime().create_stream();
  std::vector<sluice::stream> later_ones;  // destroying a stream may wait for the others
  gate closed;
  closed.hold(first);
  closed.hold(second);
  for (const auto access : {access_kind::read, access_kind::write, access_kind::read_write}) {
    for (const auto launched : {access_kind::read, access_kind::write, access_kind::read_write}) {
      const auto a = runtime().allocate<float>(16, stream());
      const auto prepared = runtime().prepare_use(a.block(), first, access);
      auto recorder = launch_recorder::strict(stream());
      recorder.use(a.block(), launched, true);
      recorder.preflight();
      const auto finished = runtime().finish_use(a.block(), first, access, prepared);
      const auto recorded = runtime().record_use(a.block(), second, access);
      const auto committed = recorder.commit();
      EXPECT_TRUE(uses_of(a).holds(finished));
      EXPECT_TRUE(uses_of(a).holds(recorded));
      const auto& third = later_ones.emplace_back(runtime().create_stream());
      const auto point = launch(third, a, access_kind::write);
      auto& later = *detail::timeline::of(third.ref());
      EXPECT_FALSE(later.wait_for(*detail::timeline::of(first.ref()), finished.ticket));
      EXPECT_FALSE(later.wait_for(*detail::timeline::of(second.ref()), recorded.ticket));
      EXPECT_FALSE(later.wait_for(*detail::timeline::of(stream()), committed.ticket));
      EXPECT_LT(later.advance(), point.ticket);
    }
  }
  closed.open();
}

TEST_P(runtime_on, the_first_use_of_scratch_memory_is_ordered_after_its_allocation) {
  gate closed;
  closed.hold(stream());
  const auto scratch = runtime().allocate<float>(16, stream(), "scratch");
  const auto ready = uses_of(scratch).last_write;
  const auto elsewhere = runtime().create_stream();
  const auto prepared = runtime().prepare_first_use(scratch, elsewhere, access_kind::write);
  EXPECT_TRUE(waits_for(elsewhere.ref(), stream(), ready.ticket));
  const auto point = runtime().finish_first_use(scratch, elsewhere, access_kind::write, prepared);
  EXPECT_EQ(uses_of(scratch).last_write, point);
  EXPECT_TRUE(uses_of(scratch).holds(ready));
  closed.open();
}

TEST_P(runtime_on, uses_of_foreign_or_untracked_memory_are_refused) {
  device_runtime other(open_device(GetParam()), {.resource = make_direct_resource()});
  const auto other_stream = other.create_stream();
  const auto untracked = other.allocate<float>(16, other_stream);
  for (const auto& block : {untracked.block(), block_ref()}) {
    EXPECT_TRUE(throws(errc::stream_misuse, "does not belong",
                       [&] { (void)runtime().prepare_use(block, stream(), access_kind::read); }));
    EXPECT_TRUE(throws(errc::stream_misuse, "does not belong",
                       [&] { (void)runtime().record_use(block, stream(), access_kind::read); }));
  }
  EXPECT_TRUE(throws(errc::stream_misuse, "does not track", [&] {
    (void)other.prepare_use(untracked.block(), other_stream, access_kind::read);
  }));
  EXPECT_TRUE(throws(errc::stream_misuse, "does not track", [&] {
    (void)other.record_use(untracked.block(), other_stream, access_kind::read);
  }));
  const auto mine = runtime().allocate<float>(16, stream());
  EXPECT_TRUE(throws(errc::stream_misuse, "not a stream of this runtime", [&] {
    (void)runtime().prepare_use(mine.block(), other_stream, access_kind::read);
  }));
}

// Refused calls

}  // namespace
}  // namespace sluice::test
