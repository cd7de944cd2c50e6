// SPDX-License-Identifier: Apache-2.0
// The points that commit publishes.
#include "runtime/sync/lease_holder.hpp"
#include "tests/runtime/recording/launch_recorder_test.hpp"
#include "tests/support/gate.hpp"
#include "tests/support/small_launches.hpp"

#include <gtest/gtest.h>

#include <cstdint>
#include <thread>
#include <vector>

namespace sluice::test {
namespace {

TEST_P(launch_recorder_on, fresh_outputs_are_ordered_after_their_allocation) {
  gate closed;
  closed.hold(stream());  // the allocation itself is behind the gate
  const auto a = fresh();
  const auto ready = uses_of(a).last_write;
  EXPECT_EQ(ready.stream, stream().id());
  const auto elsewhere = runtime().create_stream();
  const auto point = launch_fill(a, 9, elsewhere);
  EXPECT_EQ(uses_of(a).last_write, point);
  // The wait has been queued, so a second request is skipped.
  EXPECT_TRUE(waits_for(elsewhere.ref(), stream(), ready.ticket));
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
  (void)launch_fill(a, 3, stream());

  auto reader = launch_recorder::strict(elsewhere);
  reader.read(a).write(copied);
  reader.preflight();
  elsewhere.ref().device().copy(copied.data(), a.data(), a.bytes(),
                                copy_direction::device_to_device, elsewhere.ref().native());
  (void)reader.commit();
  closed.open();
  EXPECT_EQ(download(copied, elsewhere), std::vector<std::uint32_t>(a.size(), 3));
}

// The cost of one use state for each block: writers of disjoint parts are ordered.
TEST_P(launch_recorder_on, writers_of_disjoint_views_follow_each_other) {
  const auto a = fresh(64);
  const auto low = a.subspan(0, 32);
  const auto high = a.subspan(32, 32).reinterpret<float>();
  const auto elsewhere = runtime().create_stream();
  enqueue_fill(a, 0, stream());
  stream().synchronize();
  gate closed;
  closed.hold(stream());
  auto first = begin_write(low, stream());
  auto second = launch_recorder::strict(elsewhere);
  second.write(high);
  EXPECT_FALSE(second.try_preflight()) << "one lease for the block";
  enqueue_fill(low, 1, stream());
  const auto written = first.commit();
  second.preflight();
  EXPECT_TRUE(waits_for(elsewhere.ref(), stream(), written.ticket))
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
    for (const auto reader_stream : {stream(), second.ref()}) {
      auto recorder = begin_read(a, reader_stream);
      last[reader_stream == stream() ? 0 : 1] = recorder.commit();
    }
  }
  const auto uses = uses_of(a);
  EXPECT_TRUE(uses.holds(last[0]));
  EXPECT_TRUE(uses.holds(last[1]));
  EXPECT_LE(uses.all.size(), 3u);  // these and the allocation
  // A write replaces all of them.
  auto recorder = begin_write(a, stream());
  const auto point = recorder.commit();
  EXPECT_EQ(uses_of(a).all, std::vector<timeline_point>{point});
}

TEST_P(launch_recorder_on, a_launch_that_is_known_to_have_failed_fails_its_readers) {
  const auto a = fresh();
  auto recorder = begin_write(a, stream());
  (void)recorder.commit(error(errc::unsupported, "no such algorithm"));
  auto reader = launch_recorder::strict(stream());
  reader.read(a);
  EXPECT_TRUE(throws(errc::upstream_failed, "no such algorithm", [&] { reader.preflight(); }));
  expect_no_lease();
}

TEST_P(launch_recorder_on, may_be_committed_by_another_thread) {
  const auto a = fresh();
  auto recorder = begin_write(a, stream());
  std::thread([&] { (void)recorder.commit(); }).join();
  expect_no_lease();
  // The thread holds no lease any more, so it may wait for one again.
  EXPECT_FALSE(detail::lease_holder::of_this_thread().holds_any());
}

}  // namespace
}  // namespace sluice::test
