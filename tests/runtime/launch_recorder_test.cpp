#include "tests/runtime/use_state.hpp"
#include "tests/support/compute_sanitizer.hpp"
#include "tests/support/devices.hpp"
#include "tests/support/expect_error.hpp"
#include "tests/support/gate.hpp"

#include <sluice/runtime/launch_recorder.hpp>

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <string>
#include <thread>
#include <type_traits>
#include <utility>
#include <vector>

namespace sluice::test {
namespace {

static_assert(!std::is_copy_constructible_v<launch_recorder>);
static_assert(!std::is_copy_assignable_v<launch_recorder>);
static_assert(std::is_nothrow_move_constructible_v<launch_recorder>);
static_assert(std::is_nothrow_move_assignable_v<launch_recorder>);

class launch_recorder_on : public device_test {
 protected:
  [[nodiscard]] gpu_ref<std::uint32_t> fresh(std::size_t count = 64) {
    return runtime().allocate<std::uint32_t>(count, stream(), "test");
  }
  [[nodiscard]] column external() {
    return column::external(runtime().device().id(), outside_, sizeof outside_, element_type::u32);
  }
  void expect_no_lease() { EXPECT_EQ(runtime().statistics().leases, 0u); }

 private:
  std::uint32_t outside_[4] = {};
};
INSTANTIATE_TEST_SUITE_P(devices, launch_recorder_on, every_device(), parameter_name);

/// Enqueues a write of `value` to every element.
void fill(const gpu_ref<std::uint32_t>& ref, std::uint32_t value, stream_ref on) {
  on.device().fill(ref.data(), &value, sizeof value, ref.size(), on.native());
}

// What it tells

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
  fill(a, 1, stream());
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
  const auto on = plain.create_stream();
  const auto a = plain.allocate<float>(4, on, "weights");
  for (const bool strict : {true, false}) {
    auto recorder = strict ? launch_recorder::strict(on) : launch_recorder::permissive(on);
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
  EXPECT_EQ(a.block().record()->lease.try_shared(), detail::lease_answer::conflict);
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
  EXPECT_EQ(a.block().record()->lease.try_shared(), detail::lease_answer::granted);
  EXPECT_FALSE(a.block().record()->lease.release_shared());
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

// A freed block's record and, on the host for certain, its address go to the next block: the two
// stay distinct uses, and the first one is stale.
TEST_P(launch_recorder_on, identity_includes_the_generation) {
  for (const auto access : {access_kind::read, access_kind::write}) {
    auto recorder = launch_recorder::strict(stream());
    auto a = fresh();
    const auto old = a.block().id();
    const auto* record = a.block().record();
    recorder.use(a.block(), access, true);
    a = {};
    const auto b = fresh();
    ASSERT_EQ(b.block().record(), record);
    if (on_host()) {
      ASSERT_EQ(b.block().address(), old.address);
    }
    EXPECT_NE(b.block().id(), old);
    recorder.use(b.block(), access, true);
    EXPECT_EQ(recorder.recorded_count(), 2u);
    EXPECT_TRUE(throws(errc::stale_ref, "given back", [&] { recorder.preflight(); }));
    expect_no_lease();
    const auto version = uses_of(b).version;
    // Commit all the same: the living block is protected, the other one is not touched.
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

// Recorders hold no reference: the record of what they noted may become another block at any
// moment.
TEST_P(launch_recorder_on, stale_uses_may_meet_the_reuse_of_their_records) {
  std::atomic<bool> done{false};
  std::atomic<int> churned{0};
  std::thread churning([&] {
    const auto on = runtime().create_stream();
    while (!done.load(std::memory_order_relaxed)) {
      const auto a = runtime().allocate_bytes(64, on, "churn");
      const auto b = runtime().allocate_bytes(64, on, "churn");
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
    // The other thread takes the records, most of the time. Relaxed, so that this orders nothing.
    const auto before = churned.load(std::memory_order_relaxed);
    await([&] { return churned.load(std::memory_order_relaxed) != before; });
    EXPECT_TRUE(throws(errc::stale_ref, "given back", [&] { recorder.preflight(); }));
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
  // The block that lives can still be used.
  auto next = launch_recorder::strict(stream());
  next.write(kept);
  next.preflight();
  (void)next.commit();
}

// Order of calls

TEST_P(launch_recorder_on, commit_without_preflight_publishes_additively_and_then_throws) {
  const auto a = fresh();
  const auto elsewhere = runtime().create_stream();
  gate closed;
  closed.hold(elsewhere);
  auto reader = launch_recorder::strict(elsewhere);
  reader.read(a);
  reader.preflight();
  const auto read = reader.commit();
  closed.hold(stream());
  const auto written = [&] {
    auto writer = launch_recorder::strict(stream());
    writer.read(a);
    writer.preflight();
    return writer.commit();
  }();

  auto recorder = launch_recorder::strict(stream());
  recorder.write(a);
  EXPECT_TRUE(throws(errc::stream_misuse, "preflight", [&] { (void)recorder.commit(); }));
  const auto after = uses_of(a);
  EXPECT_EQ(after.last_write.stream, stream().id());
  EXPECT_GT(after.last_write.ticket, written.ticket);
  EXPECT_TRUE(after.holds(read)) << "an unfenced write stands for nothing before it";
  expect_no_lease();
  EXPECT_EQ(runtime().statistics().recorders_abandoned, 0u);
}

TEST_P(launch_recorder_on, commit_after_a_refused_preflight_publishes_additively) {
  const auto a = fresh();
  const auto version = uses_of(a).version;
  auto recorder = launch_recorder::strict(stream());
  recorder.write(a).read(external());
  EXPECT_TRUE(throws(errc::stream_misuse, "identity", [&] { recorder.preflight(); }));
  EXPECT_TRUE(throws(errc::stream_misuse, "identity", [&] { (void)recorder.commit(); }));
  EXPECT_EQ(uses_of(a).version, version + 1);
}

TEST_P(launch_recorder_on, recording_after_preflight_is_refused_and_the_frozen_set_published) {
  const auto a = fresh();
  const auto late = fresh();
  const auto untouched = uses_of(late);
  auto recorder = launch_recorder::strict(stream());
  recorder.write(a);
  recorder.preflight();
  EXPECT_NO_THROW(recorder.write(late));
  EXPECT_EQ(recorder.recorded_count(), 1u);
  const auto before = stream().timeline()->newest().ticket;
  EXPECT_TRUE(throws(errc::stream_misuse, "frozen", [&] { (void)recorder.commit(); }));
  EXPECT_EQ(uses_of(a).last_write, (timeline_point{stream().id(), before + 1}));
  EXPECT_EQ(uses_of(late).version, untouched.version);
  expect_no_lease();
}

TEST_P(launch_recorder_on, recording_after_preflight_surfaces_at_a_second_preflight) {
  const auto a = fresh();
  auto recorder = launch_recorder::strict(stream());
  recorder.write(a);
  recorder.preflight();
  recorder.read(a);
  EXPECT_TRUE(throws(errc::stream_misuse, "frozen", [&] { recorder.preflight(); }));
  EXPECT_EQ(runtime().statistics().leases, 1u) << "the launch is still between its two ends";
  EXPECT_TRUE(throws(errc::stream_misuse, "frozen", [&] { (void)recorder.commit(); }));
  expect_no_lease();
}

TEST_P(launch_recorder_on, a_second_preflight_is_refused_and_changes_nothing) {
  const auto a = fresh();
  auto recorder = launch_recorder::strict(stream());
  recorder.write(a);
  recorder.preflight();
  EXPECT_TRUE(throws(errc::stream_misuse, "preflight", [&] { recorder.preflight(); }));
  EXPECT_EQ(runtime().statistics().leases, 1u);
  const auto point = recorder.commit();
  EXPECT_EQ(uses_of(a).last_write, point);
  EXPECT_TRUE(throws(errc::stream_misuse, "preflight", [&] { recorder.preflight(); }));
  expect_no_lease();
}

TEST_P(launch_recorder_on, a_second_commit_is_refused_and_publishes_nothing) {
  const auto a = fresh();
  auto recorder = launch_recorder::strict(stream());
  recorder.write(a);
  recorder.preflight();
  (void)recorder.commit();
  const auto version = uses_of(a).version;
  const auto launches = runtime().statistics().launches;
  EXPECT_TRUE(throws(errc::stream_misuse, "commit", [&] { (void)recorder.commit(); }));
  EXPECT_EQ(uses_of(a).version, version);
  EXPECT_EQ(runtime().statistics().launches, launches);
  expect_no_lease();
}

TEST_P(launch_recorder_on, preflight_on_a_retired_stream_is_refused) {
  const auto a = fresh();
  auto gone = runtime().create_stream();
  auto recorder = launch_recorder::strict(gone);
  recorder.write(a);
  gone = {};
  EXPECT_TRUE(throws(errc::stream_misuse, "retired", [&] { recorder.preflight(); }));
  expect_no_lease();
}

TEST_P(launch_recorder_on, a_stream_retired_before_commit_still_protects_the_launch) {
  SLUICE_SKIP_UNDER_COMPUTE_SANITIZER("it waits for a stream's work where the stream is destroyed");
  const auto a = fresh();
  auto going = runtime().create_stream();
  const auto id = going.id();
  gate closed;
  auto recorder = launch_recorder::strict(going);
  recorder.write(a);
  recorder.preflight();
  closed.hold(going);
  fill(a, 5, going);
  going = {};
  EXPECT_TRUE(throws(errc::stream_misuse, "retired", [&] { (void)recorder.commit(); }));
  expect_no_lease();
  const auto written = uses_of(a).last_write;
  EXPECT_EQ(written.stream, id);
  EXPECT_FALSE(runtime().core()->find(id)->completed(written.ticket));
  closed.open();
  EXPECT_EQ(download(a, stream()), std::vector<std::uint32_t>(a.size(), 5));
}

TEST_P(launch_recorder_on, preflight_answers_shutting_down_once_the_runtime_closes) {
  const auto a = fresh();
  auto recorder = launch_recorder::strict(stream());
  recorder.write(a);
  EXPECT_TRUE(runtime().shut_down(std::chrono::seconds(60)));
  EXPECT_TRUE(throws(errc::shutting_down, "", [&] { recorder.preflight(); }));
  expect_no_lease();
}

// What commit publishes

TEST_P(launch_recorder_on, fresh_outputs_are_ordered_after_their_allocation) {
  gate closed;
  closed.hold(stream());  // the allocation itself is held back
  const auto a = fresh();
  const auto ready = uses_of(a).last_write;
  EXPECT_EQ(ready.stream, stream().id());
  const auto elsewhere = runtime().create_stream();
  auto recorder = launch_recorder::strict(elsewhere);
  recorder.write(a);
  recorder.preflight();
  fill(a, 9, elsewhere);
  const auto point = recorder.commit();
  EXPECT_EQ(uses_of(a).last_write, point);
  // The wait has been queued, so asking for it again is skipped.
  EXPECT_FALSE(elsewhere.ref().timeline()->wait_for(*stream().timeline(), ready.ticket));
  EXPECT_FALSE(stream().completed(ready.ticket));
  closed.open();
  EXPECT_EQ(download(a, stream()), std::vector<std::uint32_t>(a.size(), 9));
}

TEST_P(launch_recorder_on, a_reader_elsewhere_sees_the_write_before_it) {
  const auto a = fresh();
  const auto copied = fresh();
  const auto elsewhere = runtime().create_stream();
  gate closed;
  closed.hold(stream());
  auto writer = launch_recorder::strict(stream());
  writer.write(a);
  writer.preflight();
  fill(a, 3, stream());
  (void)writer.commit();

  auto reader = launch_recorder::strict(elsewhere);
  reader.read(a).write(copied);
  reader.preflight();
  elsewhere.ref().device().copy(copied.data(), a.data(), a.bytes(),
                                copy_direction::device_to_device, elsewhere.ref().native());
  (void)reader.commit();
  closed.open();
  EXPECT_EQ(download(copied, elsewhere), std::vector<std::uint32_t>(a.size(), 3));
}

// Tracking stays with the block, and this is what it costs.
TEST_P(launch_recorder_on, writers_of_disjoint_views_follow_each_other) {
  const auto a = fresh(64);
  const auto low = a.subspan(0, 32);
  const auto high = a.subspan(32, 32).reinterpret<float>();
  const auto elsewhere = runtime().create_stream();
  fill(a, 0, stream());
  stream().synchronize();
  gate closed;
  closed.hold(stream());
  auto first = launch_recorder::strict(stream());
  first.write(low);
  first.preflight();
  auto second = launch_recorder::strict(elsewhere);
  second.write(high);
  EXPECT_FALSE(second.try_preflight()) << "one lease for the block";
  fill(low, 1, stream());
  const auto written = first.commit();
  second.preflight();
  EXPECT_FALSE(elsewhere.ref().timeline()->wait_for(*stream().timeline(), written.ticket))
      << "the wait has not been queued";
  const float value = 2;
  elsewhere.ref().device().fill(high.data(), &value, sizeof value, high.size(),
                                elsewhere.ref().native());
  const auto last = second.commit();
  EXPECT_EQ(uses_of(low).last_write, last);
  EXPECT_EQ(uses_of(high).all.size(), 1u) << "the second stands for the first";
  closed.open();
  EXPECT_EQ(download(low, elsewhere), std::vector<std::uint32_t>(32, 1));
  EXPECT_EQ(download(high, elsewhere), std::vector<float>(32, 2));
}

TEST_P(launch_recorder_on, reads_keep_the_newest_point_of_each_stream) {
  const auto a = fresh();
  const auto second = runtime().create_stream();
  gate closed;
  closed.hold(stream());
  closed.hold(second);
  timeline_point last[2];
  for (int i = 0; i < 100; ++i) {
    for (const auto on : {stream(), second.ref()}) {
      auto recorder = launch_recorder::strict(on);
      recorder.read(a);
      recorder.preflight();
      last[on == stream() ? 0 : 1] = recorder.commit();
    }
  }
  const auto uses = uses_of(a);
  EXPECT_TRUE(uses.holds(last[0]));
  EXPECT_TRUE(uses.holds(last[1]));
  EXPECT_LE(uses.all.size(), 3u);  // these and the allocation
  // A write stands for all of them.
  auto recorder = launch_recorder::strict(stream());
  recorder.write(a);
  recorder.preflight();
  const auto point = recorder.commit();
  EXPECT_EQ(uses_of(a).all, std::vector<timeline_point>{point});
}

TEST_P(launch_recorder_on, a_launch_that_is_known_to_have_failed_fails_its_readers) {
  const auto a = fresh();
  auto recorder = launch_recorder::strict(stream());
  recorder.write(a);
  recorder.preflight();
  (void)recorder.commit(error(errc::unsupported, "no such algorithm"));
  auto reader = launch_recorder::strict(stream());
  reader.read(a);
  EXPECT_TRUE(throws(errc::upstream_failed, "no such algorithm", [&] { reader.preflight(); }));
  expect_no_lease();
}

TEST_P(launch_recorder_on, may_be_committed_by_another_thread) {
  const auto a = fresh();
  auto recorder = launch_recorder::strict(stream());
  recorder.write(a);
  recorder.preflight();
  std::thread([&] { (void)recorder.commit(); }).join();
  expect_no_lease();
  // This thread counts as holding nothing: it may wait for a lease again.
  EXPECT_FALSE(detail::lease_holder::of_this_thread().holds_any());
}

// Destruction

TEST_P(launch_recorder_on, destroyed_before_preflight_publishes_nothing_and_is_reported) {
  const auto a = fresh();
  const auto before = uses_of(a);
  ::testing::internal::CaptureStderr();
  {
    auto recorder = launch_recorder::strict(stream());
    recorder.write(a);
  }
  const auto said = ::testing::internal::GetCapturedStderr();
  EXPECT_NE(said.find("before preflight"), std::string::npos) << said;
  EXPECT_EQ(runtime().statistics().recorders_abandoned, 1u);
  EXPECT_EQ(uses_of(a).version, before.version);
  expect_no_lease();
}

TEST_P(launch_recorder_on, destroyed_after_preflight_publishes_as_commit_would_and_is_reported) {
  const auto a = fresh();
  const auto before = stream().timeline()->newest().ticket;
  ::testing::internal::CaptureStderr();
  {
    auto recorder = launch_recorder::strict(stream());
    recorder.write(a);
    recorder.preflight();
    fill(a, 11, stream());
  }
  const auto said = ::testing::internal::GetCapturedStderr();
  EXPECT_NE(said.find("between preflight and commit"), std::string::npos) << said;
  EXPECT_EQ(runtime().statistics().recorders_abandoned, 1u);
  EXPECT_EQ(uses_of(a).last_write, (timeline_point{stream().id(), before + 1}));
  expect_no_lease();
  const auto elsewhere = runtime().create_stream();
  EXPECT_EQ(download(a, elsewhere), std::vector<std::uint32_t>(a.size(), 11));
}

TEST_P(launch_recorder_on, destroyed_after_commit_or_a_refused_preflight_is_no_misuse) {
  const auto a = fresh();
  {
    auto recorder = launch_recorder::strict(stream());
    recorder.write(a);
    recorder.preflight();
    (void)recorder.commit();
  }
  {
    auto recorder = launch_recorder::strict(stream());
    recorder.write(a).read(external());
    EXPECT_ANY_THROW(recorder.preflight());
  }
  {
    auto freed = fresh();
    auto recorder = launch_recorder::strict(stream());
    recorder.write(freed);
    freed = {};
    EXPECT_ANY_THROW(recorder.preflight());
  }
  EXPECT_EQ(runtime().statistics().recorders_abandoned, 0u);
}

// Moving

TEST_P(launch_recorder_on, moving_hands_over_what_was_recorded) {
  const auto a = fresh();
  auto first = launch_recorder::strict(stream());
  first.write(a);
  auto second = std::move(first);
  EXPECT_EQ(second.recorded_count(), 1u);
  second.preflight();
  auto third = std::move(second);
  const auto point = third.commit();
  EXPECT_EQ(uses_of(a).last_write, point);
  EXPECT_EQ(runtime().statistics().recorders_abandoned, 0u);
  expect_no_lease();
}

TEST_P(launch_recorder_on, move_assignment_onto_a_live_recorder_ends_that_one) {
  const auto a = fresh();
  const auto b = fresh();
  auto target = launch_recorder::strict(stream());
  target.write(a);
  target.preflight();
  const auto before = uses_of(a).version;
  auto source = launch_recorder::strict(stream());
  source.write(b);
  ::testing::internal::CaptureStderr();
  target = std::move(source);
  EXPECT_NE(::testing::internal::GetCapturedStderr().find("between preflight and commit"),
            std::string::npos);
  EXPECT_EQ(uses_of(a).version, before + 1) << "published as by commit";
  expect_no_lease();
  target.preflight();
  const auto point = target.commit();
  EXPECT_EQ(uses_of(b).last_write, point);
  EXPECT_EQ(runtime().statistics().recorders_abandoned, 1u);
}

TEST_P(launch_recorder_on, move_assignment_onto_itself_changes_nothing) {
  const auto a = fresh();
  auto recorder = launch_recorder::strict(stream());
  recorder.write(a);
  recorder.preflight();
  auto& same = recorder;
  recorder = std::move(same);
  EXPECT_EQ(recorder.recorded_count(), 1u);
  EXPECT_EQ(runtime().statistics().leases, 1u);
  const auto point = recorder.commit();
  EXPECT_EQ(uses_of(a).last_write, point);
  EXPECT_EQ(runtime().statistics().recorders_abandoned, 0u);
}

}  // namespace
}  // namespace sluice::test
