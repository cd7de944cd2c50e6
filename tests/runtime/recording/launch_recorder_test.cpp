// SPDX-License-Identifier: Apache-2.0
// The registrations that a recorder accepts, and the blocks that they name.
#include "tests/runtime/recording/launch_recorder_test.hpp"

#include "tests/support/gate.hpp"
#include "tests/support/small_launches.hpp"

#include <gtest/gtest.h>

#include <atomic>
#include <cstdint>
#include <string>
#include <thread>
#include <vector>

namespace sluice::test {
namespace {

INSTANTIATE_TEST_SUITE_P(devices, launch_recorder_on, every_device(), parameter_name);

// Queries

TEST_P(launch_recorder_on, tells_its_stream_mode_and_number_of_uses) {
  const auto a = fresh();
  const auto b = fresh();
  auto strict = launch_recorder::strict(stream());
  EXPECT_EQ(strict.launch_stream(), stream().id());
  EXPECT_EQ(strict.mode(), recorder_mode::strict);
  EXPECT_EQ(strict.recorded_count(), 0u);
  strict.read(a).write(b);
  EXPECT_EQ(strict.recorded_count(), 2u);
  strict.preflight();
  (void)strict.commit();
  EXPECT_EQ(strict.recorded_count(), 2u);
  EXPECT_EQ(launch_recorder::permissive(stream()).mode(), recorder_mode::permissive);
}

TEST_P(launch_recorder_on, needs_a_stream) {
  EXPECT_TRUE(
      throws(errc::stream_misuse, "stream", [] { (void)launch_recorder::strict(stream_ref()); }));
  EXPECT_TRUE(throws(errc::stream_misuse, "stream",
                     [] { (void)launch_recorder::permissive(stream_ref()); }));
}

// Empty recorders

TEST_P(launch_recorder_on, without_uses_is_a_no_op) {
  const auto before = runtime().statistics().launches;
  auto recorder = launch_recorder::strict(stream());
  recorder.preflight();
  EXPECT_EQ(recorder.commit(), timeline_point{});
  auto unprepared = launch_recorder::strict(stream());
  EXPECT_EQ(unprepared.commit(), timeline_point{});
  { const auto dropped = launch_recorder::strict(stream()); }
  const auto after = runtime().statistics();
  EXPECT_EQ(after.launches, before);
  EXPECT_EQ(after.leases, 0u);
  EXPECT_EQ(after.recorders_abandoned, 0u);
}

// Memory without identity

TEST_P(launch_recorder_on, strict_rejects_an_external_column) {
  const auto a = fresh();
  auto recorder = launch_recorder::strict(stream());
  EXPECT_NO_THROW(recorder.read(external()).write(a));
  EXPECT_TRUE(throws(errc::stream_misuse, "identity", [&] { recorder.preflight(); }));
  expect_no_lease();
  EXPECT_TRUE(throws(errc::stream_misuse, "identity", [&] { (void)recorder.commit(); }));
}

TEST_P(launch_recorder_on, strict_rejects_an_empty_reference) {
  auto recorder = launch_recorder::strict(stream());
  EXPECT_NO_THROW(recorder.write(gpu_ref<std::uint32_t>()));
  EXPECT_TRUE(throws(errc::stream_misuse, "identity", [&] { recorder.preflight(); }));
  EXPECT_TRUE(throws(errc::stream_misuse, "identity", [&] { (void)recorder.commit(); }));
}

TEST_P(launch_recorder_on, permissive_skips_external_columns_and_empty_references) {
  const auto a = fresh();
  auto recorder = launch_recorder::permissive(stream());
  recorder.read(external()).read_write(gpu_ref<std::uint32_t>()).read(column()).write(a);
  EXPECT_EQ(recorder.recorded_count(), 1u);
  recorder.preflight();
  enqueue_fill(a, 1, stream());
  const auto point = recorder.commit();
  EXPECT_EQ(uses_of(a).last_write, point);

  auto nothing = launch_recorder::permissive(stream());
  nothing.write(external());
  EXPECT_EQ(nothing.recorded_count(), 0u);
  nothing.preflight();
  EXPECT_EQ(nothing.commit(), timeline_point{});
}

TEST_P(launch_recorder_on, an_owned_column_is_tracked_like_its_reference) {
  const auto a = fresh();
  auto recorder = launch_recorder::strict(stream());
  recorder.read(a).write(column(a));
  EXPECT_EQ(recorder.recorded_count(), 1u);
  recorder.preflight();
  const auto point = recorder.commit();
  EXPECT_EQ(uses_of(a).last_write, point);
}

TEST_P(launch_recorder_on, surfaces_the_first_rejection_at_preflight_and_at_commit) {
  device_runtime other(open_device(GetParam()));
  const auto other_stream = other.create_stream();
  const auto foreign = other.allocate<float>(4, other_stream);
  auto recorder = launch_recorder::strict(stream());
  recorder.write(external()).read(foreign);
  EXPECT_TRUE(throws(errc::stream_misuse, "identity", [&] { recorder.preflight(); }));
  EXPECT_TRUE(throws(errc::stream_misuse, "identity", [&] { recorder.preflight(); }));
  EXPECT_TRUE(throws(errc::stream_misuse, "identity", [&] { (void)recorder.commit(); }));
}

TEST_P(launch_recorder_on, refuses_memory_of_a_resource_that_cannot_track) {
  device_runtime plain(open_device(GetParam()), {.resource = make_direct_resource()});
  EXPECT_FALSE(plain.supports_use_tracking());
  const auto stream = plain.create_stream();
  const auto a = plain.allocate<float>(4, stream, "weights");
  for (const bool strict : {true, false}) {
    auto recorder = strict ? launch_recorder::strict(stream) : launch_recorder::permissive(stream);
    EXPECT_NO_THROW(recorder.read(a));
    EXPECT_TRUE(throws(errc::stream_misuse, "weights", [&] { recorder.preflight(); }));
    EXPECT_TRUE(throws(errc::stream_misuse, "weights", [&] { (void)recorder.commit(); }));
  }
  EXPECT_EQ(plain.statistics().leases, 0u);
}

// Merging and identity

TEST_P(launch_recorder_on, merges_read_and_write_of_one_block) {
  const auto a = fresh();
  auto recorder = launch_recorder::strict(stream());
  recorder.read(a).write(a).read(a.subspan(3, 5));
  EXPECT_EQ(recorder.recorded_count(), 1u);
  recorder.preflight();
  EXPECT_EQ(runtime().statistics().leases, 1u);
  EXPECT_EQ(detail::block_record::of(a.block())->lease.try_shared(),
            detail::lease_answer::conflict);
  const auto point = recorder.commit();
  EXPECT_EQ(uses_of(a).last_write, point);
  expect_no_lease();
}

TEST_P(launch_recorder_on, merges_repeated_reads_to_one_shared_lease) {
  const auto a = fresh();
  const auto written = uses_of(a).last_write;
  auto recorder = launch_recorder::strict(stream());
  recorder.read(a).read(a);
  EXPECT_EQ(recorder.recorded_count(), 1u);
  recorder.preflight();
  EXPECT_EQ(detail::block_record::of(a.block())->lease.try_shared(), detail::lease_answer::granted);
  EXPECT_FALSE(detail::block_record::of(a.block())->lease.release_shared());
  const auto point = recorder.commit();
  EXPECT_EQ(uses_of(a).last_write, written);
  EXPECT_TRUE(uses_of(a).holds(point));
  expect_no_lease();
}

TEST_P(launch_recorder_on, records_more_blocks_than_it_keeps_inline) {
  std::vector<gpu_ref<std::uint32_t>> refs;
  for (int i = 0; i < 40; ++i) refs.push_back(fresh(16));
  auto recorder = launch_recorder::strict(stream());
  for (const auto& ref : refs) recorder.write(ref);
  EXPECT_EQ(recorder.recorded_count(), refs.size());
  recorder.preflight();
  EXPECT_EQ(runtime().statistics().leases, refs.size());
  const auto point = recorder.commit();
  for (const auto& ref : refs) EXPECT_EQ(uses_of(ref).last_write, point);
  expect_no_lease();
}

// A new block gets the record of a freed one and, certainly on the host, its address. The two
// registrations stay distinct, and the first one is stale.
TEST_P(launch_recorder_on, identity_includes_the_generation) {
  for (const auto access : {access_kind::read, access_kind::write}) {
    auto recorder = launch_recorder::strict(stream());
    auto a = fresh();
    const auto old = a.block().id();
    const auto* record = detail::block_record::of(a.block());
    recorder.use(a.block(), access, true);
    a = {};
    const auto b = fresh();
    ASSERT_EQ(detail::block_record::of(b.block()), record);
    if (on_host()) {
      ASSERT_EQ(b.block().address(), old.address);
    }
    EXPECT_NE(b.block().id(), old);
    recorder.use(b.block(), access, true);
    EXPECT_EQ(recorder.recorded_count(), 2u);
    EXPECT_TRUE(throws(errc::stale_ref, "been freed", [&] { recorder.preflight(); }));
    expect_no_lease();
    const auto version = uses_of(b).version;
    // Commit protects the living block and does not touch the other one.
    EXPECT_TRUE(throws(errc::stream_misuse, "preflight", [&] { (void)recorder.commit(); }));
    EXPECT_EQ(uses_of(b).version, version + 1);
  }
}

TEST_P(launch_recorder_on, a_stale_use_does_not_touch_the_block_that_took_its_record) {
  auto recorder = launch_recorder::strict(stream());
  auto a = fresh();
  recorder.write(a);
  a = {};
  const auto b = fresh();
  const auto before = uses_of(b);
  EXPECT_TRUE(throws(errc::stale_ref, "", [&] { recorder.preflight(); }));
  EXPECT_TRUE(throws(errc::stream_misuse, "", [&] { (void)recorder.commit(); }));
  EXPECT_EQ(uses_of(b).version, before.version);
  EXPECT_EQ(uses_of(b).last_write, before.last_write);
  expect_no_lease();
}

// Recorders hold no reference, so the record of a registered block may become another block at any
// moment.
TEST_P(launch_recorder_on, stale_uses_may_meet_the_reuse_of_their_records) {
  std::atomic<bool> done{false};
  std::atomic<int> churned{0};
  std::thread churning([&] {
    const auto thread_stream = runtime().create_stream();
    while (!done.load(std::memory_order_relaxed)) {
      const auto a = runtime().allocate_bytes(64, thread_stream, "churn");
      const auto b = runtime().allocate_bytes(64, thread_stream, "churn");
      churned.fetch_add(1, std::memory_order_relaxed);
    }
  });
  for (int round = 0; round < 300; ++round) {
    auto recorder = launch_recorder::strict(stream());
    {
      const auto read = fresh();
      const auto written = fresh();
      recorder.read(read).write(written);
    }
    // By then the other thread has usually taken the records. Relaxed, so that this orders nothing.
    const auto before = churned.load(std::memory_order_relaxed);
    await([&] { return churned.load(std::memory_order_relaxed) != before; });
    EXPECT_TRUE(throws(errc::stale_ref, "been freed", [&] { recorder.preflight(); }));
  }
  done.store(true);
  churning.join();
  expect_no_lease();
}

TEST_P(launch_recorder_on, preflight_answers_stale_ref_for_a_freed_block) {
  const auto kept = fresh();
  const auto freed = fresh();
  auto recorder = launch_recorder::strict(stream());
  recorder.read(kept).write(freed);
  runtime().deallocate(freed.block());
  EXPECT_TRUE(freed.stale());
  const auto named = "memory '" + std::string(freed.block().tag().name()) + "', which";
  EXPECT_TRUE(throws(errc::stale_ref, named, [&] { recorder.preflight(); }));
  expect_no_lease();
  // The living block is still usable.
  auto next = begin_write(kept, stream());
  (void)next.commit();
}

}  // namespace
}  // namespace sluice::test
