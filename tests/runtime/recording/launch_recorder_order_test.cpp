// SPDX-License-Identifier: Apache-2.0
// The order of calls on a recorder, its destruction, and its moves.
#include "tests/runtime/recording/launch_recorder_test.hpp"
#include "tests/support/collected_reports.hpp"
#include "tests/support/compute_sanitizer.hpp"
#include "tests/support/gate.hpp"
#include "tests/support/small_launches.hpp"

#include <gtest/gtest.h>

#include <chrono>
#include <cstdint>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

namespace sluice::test {
namespace {

static_assert(!std::is_copy_constructible_v<launch_recorder>);
static_assert(!std::is_copy_assignable_v<launch_recorder>);
static_assert(std::is_nothrow_move_constructible_v<launch_recorder>);
static_assert(std::is_nothrow_move_assignable_v<launch_recorder>);

// Order of calls

TEST_P(launch_recorder_on, commit_without_preflight_publishes_additively_and_then_throws) {
  const auto a = fresh();
  const auto elsewhere = runtime().create_stream();
  gate closed;
  closed.hold(elsewhere);
  auto reader = begin_read(a, elsewhere);
  const auto read = reader.commit();
  closed.hold(stream());
  const auto written = [&] {
    return begin_read(a, stream()).commit();
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
  auto recorder = begin_write(a, stream());
  EXPECT_NO_THROW(recorder.write(late));
  EXPECT_EQ(recorder.recorded_count(), 1u);
  const auto before = detail::timeline::of(stream())->newest().ticket;
  EXPECT_TRUE(throws(errc::stream_misuse, "freezes the uses", [&] { (void)recorder.commit(); }));
  EXPECT_EQ(uses_of(a).last_write, (timeline_point{stream().id(), before + 1}));
  EXPECT_EQ(uses_of(late).version, untouched.version);
  expect_no_lease();
}

TEST_P(launch_recorder_on, recording_after_preflight_surfaces_at_a_second_preflight) {
  const auto a = fresh();
  auto recorder = begin_write(a, stream());
  recorder.read(a);
  EXPECT_TRUE(throws(errc::stream_misuse, "freezes the uses", [&] { recorder.preflight(); }));
  EXPECT_EQ(runtime().statistics().leases, 1u) << "the launch is still between its two ends";
  EXPECT_TRUE(throws(errc::stream_misuse, "freezes the uses", [&] { (void)recorder.commit(); }));
  expect_no_lease();
}

TEST_P(launch_recorder_on, a_second_preflight_is_refused_and_changes_nothing) {
  const auto a = fresh();
  auto recorder = begin_write(a, stream());
  EXPECT_TRUE(throws(errc::stream_misuse, "preflight", [&] { recorder.preflight(); }));
  EXPECT_EQ(runtime().statistics().leases, 1u);
  const auto point = recorder.commit();
  EXPECT_EQ(uses_of(a).last_write, point);
  EXPECT_TRUE(throws(errc::stream_misuse, "preflight", [&] { recorder.preflight(); }));
  expect_no_lease();
}

TEST_P(launch_recorder_on, a_second_commit_is_refused_and_publishes_nothing) {
  const auto a = fresh();
  auto recorder = begin_write(a, stream());
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
  EXPECT_TRUE(
      throws(errc::stream_misuse, "stream has been destroyed", [&] { recorder.preflight(); }));
  expect_no_lease();
}

TEST_P(launch_recorder_on, a_stream_retired_before_commit_still_protects_the_launch) {
  SLUICE_SKIP_UNDER_COMPUTE_SANITIZER("it waits for a stream's work where the stream is destroyed");
  const auto a = fresh();
  auto going = runtime().create_stream();
  const auto id = going.id();
  gate closed;
  auto recorder = begin_write(a, going);
  closed.hold(going);
  enqueue_fill(a, 5, going);
  going = {};
  EXPECT_TRUE(
      throws(errc::stream_misuse, "stream has been destroyed", [&] { (void)recorder.commit(); }));
  expect_no_lease();
  const auto written = uses_of(a).last_write;
  EXPECT_EQ(written.stream, id);
  EXPECT_FALSE(detail::runtime_core::of(runtime())->find(id)->completed(written.ticket));
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

// Destruction

TEST_P(launch_recorder_on, destroyed_before_preflight_publishes_nothing_and_is_reported) {
  const auto a = fresh();
  const auto before = uses_of(a);
  const collected_reports reports;
  {
    auto recorder = launch_recorder::strict(stream());
    recorder.write(a);
  }
  const auto said = reports.text();
  EXPECT_NE(said.find("before preflight"), std::string::npos) << said;
  EXPECT_EQ(runtime().statistics().recorders_abandoned, 1u);
  EXPECT_EQ(uses_of(a).version, before.version);
  expect_no_lease();
}

TEST_P(launch_recorder_on, destroyed_after_preflight_publishes_as_commit_would_and_is_reported) {
  const auto a = fresh();
  const auto before = detail::timeline::of(stream())->newest().ticket;
  const collected_reports reports;
  {
    auto recorder = begin_write(a, stream());
    enqueue_fill(a, 11, stream());
  }
  const auto said = reports.text();
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
    auto recorder = begin_write(a, stream());
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

// Moves

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
  auto target = begin_write(a, stream());
  const auto before = uses_of(a).version;
  auto source = launch_recorder::strict(stream());
  source.write(b);
  const collected_reports reports;
  target = std::move(source);
  EXPECT_NE(reports.text().find("between preflight and commit"), std::string::npos);
  EXPECT_EQ(uses_of(a).version, before + 1) << "published as by commit";
  expect_no_lease();
  target.preflight();
  const auto point = target.commit();
  EXPECT_EQ(uses_of(b).last_write, point);
  EXPECT_EQ(runtime().statistics().recorders_abandoned, 1u);
}

TEST_P(launch_recorder_on, move_assignment_onto_itself_changes_nothing) {
  const auto a = fresh();
  auto recorder = begin_write(a, stream());
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
