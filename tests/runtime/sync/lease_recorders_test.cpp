// SPDX-License-Identifier: Apache-2.0
// Recorders of several threads: waiting, refusals, and concurrent frees.
#include "tests/runtime/sync/lease_test.hpp"
#include "tests/support/expect_error.hpp"
#include "tests/support/gate.hpp"
#include "tests/support/launching_thread.hpp"
#include "tests/support/small_launches.hpp"
#include "tests/support/use_state.hpp"

#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <optional>
#include <thread>
#include <utility>

namespace sluice::test {
namespace {

using detail::lease_answer;

INSTANTIATE_TEST_SUITE_P(devices, leases_on, every_device(), parameter_name);

TEST_P(leases_on, readers_are_between_preflight_and_commit_together) {
  const auto a = fresh();
  launching_thread first(runtime(), [&](launch_recorder& r) { r.read(a); });
  first.await_through();
  launching_thread second(runtime(), [&](launch_recorder& r) { r.read(a); });
  second.await_through();  // although the first has not committed
  EXPECT_EQ(runtime().statistics().leases, 2u);
  first.commit();
  second.commit();
  const auto points = std::array{first.join(), second.join()};
  for (const auto& point : points) {
    EXPECT_TRUE(uses_of(a).holds(point) || detail::runtime_core::of(runtime())->settled(point));
  }
  EXPECT_EQ(runtime().statistics().leases, 0u);
}

TEST_P(leases_on, a_writer_waits_for_the_reader_and_is_fenced_behind_it) {
  const auto a = fresh();
  gate closed;
  launching_thread reader(runtime(), [&](launch_recorder& r) { r.read(a); });
  reader.await_through();
  closed.hold(reader.stream());
  launching_thread writer(runtime(), [&](launch_recorder& r) { r.write(a); });
  await_waiting_writer(a);
  EXPECT_FALSE(writer.through());
  reader.commit();
  const auto read = reader.join();
  writer.await_through();
  EXPECT_TRUE(waits_for(writer.stream(), reader.stream(), read.ticket))
      << "the wait for the read has not been queued";
  writer.commit();
  const auto written = writer.join();
  EXPECT_EQ(uses_of(a).last_write, written);
  closed.open();
}

TEST_P(leases_on, a_reader_waits_for_the_writer_and_is_fenced_behind_it) {
  const auto a = fresh();
  gate closed;
  launching_thread writer(runtime(), [&](launch_recorder& r) { r.write(a); });
  writer.await_through();
  closed.hold(writer.stream());
  launching_thread reader(runtime(), [&](launch_recorder& r) { r.read(a); });
  reader.await_blocked();
  EXPECT_FALSE(reader.through());
  writer.commit();
  const auto written = writer.join();
  reader.await_through();
  EXPECT_TRUE(waits_for(reader.stream(), writer.stream(), written.ticket));
  reader.commit();
  const auto read = reader.join();
  EXPECT_TRUE(uses_of(a).holds(read) || detail::runtime_core::of(runtime())->settled(read));
  closed.open();
}

TEST_P(leases_on, waits_for_them_are_counted_and_timed) {
  using std::chrono::nanoseconds;
  const auto a = fresh();
  const auto b = fresh();
  const auto statistics = [&] {
    return runtime().statistics();
  };
  launching_thread first(runtime(), [&](launch_recorder& r) { r.write(a); });
  first.await_through();
  EXPECT_EQ(statistics().lease_waits, 0u) << "nobody was in the way";
  launching_thread second(runtime(), [&](launch_recorder& r) { r.write(a); });
  await([&] { return statistics().lease_waits == 1; });
  EXPECT_EQ(statistics().lease_wait_total, nanoseconds(0)) << "it is not over";
  launching_thread beside(runtime(), [&](launch_recorder& r) { r.write(b); });
  beside.commit();
  (void)beside.join();
  first.commit();
  (void)first.join();
  second.commit();
  (void)second.join();
  // A wait ends early if the holder locks the block to commit. The launch then waits once more.
  const auto once = statistics();
  EXPECT_GE(once.lease_waits, 1u);
  EXPECT_GT(once.lease_wait_total, nanoseconds(0));
  EXPECT_LE(once.lease_wait_longest, once.lease_wait_total);

  launching_thread third(runtime(), [&](launch_recorder& r) { r.read(a); });
  third.await_through();
  launching_thread fourth(runtime(), [&](launch_recorder& r) { r.write(a); });
  await([&] { return statistics().lease_waits > once.lease_waits; });
  third.commit();
  (void)third.join();
  fourth.commit();
  (void)fourth.join();
  const auto twice = statistics();
  EXPECT_GT(twice.lease_wait_total, once.lease_wait_total);
  EXPECT_LT(twice.lease_wait_longest, twice.lease_wait_total);
}

TEST_P(leases_on, writers_follow_each_other) {
  const auto a = fresh();
  gate closed;
  launching_thread first(runtime(), [&](launch_recorder& r) { r.write(a); });
  first.await_through();
  closed.hold(first.stream());
  launching_thread second(runtime(), [&](launch_recorder& r) { r.read_write(a); });
  second.await_blocked();
  EXPECT_FALSE(second.through());
  first.commit();
  const auto written = first.join();
  second.await_through();
  EXPECT_TRUE(waits_for(second.stream(), first.stream(), written.ticket));
  second.commit();
  const auto written_last = second.join();
  EXPECT_EQ(uses_of(a).last_write, written_last);
  closed.open();
}

TEST_P(leases_on, a_reader_that_comes_while_a_writer_waits_comes_after_it) {
  const auto a = fresh();
  launching_thread reader(runtime(), [&](launch_recorder& r) { r.read(a); });
  reader.await_through();
  launching_thread writer(runtime(), [&](launch_recorder& r) { r.write(a); });
  await_waiting_writer(a);
  launching_thread late(runtime(), [&](launch_recorder& r) { r.read(a); });
  late.await_blocked();
  reader.commit();
  reader.join();
  writer.await_through();
  EXPECT_FALSE(late.through());
  writer.commit();
  writer.join();
  late.await_through();
  late.commit();
  late.join();
  EXPECT_FALSE(late.failure().has_value());
}

TEST_P(leases_on, a_thread_that_holds_one_gets_stream_misuse_at_a_conflict) {
  const auto a = fresh();
  const auto b = fresh();
  auto held = begin_read(a, stream());
  {
    auto same = launch_recorder::strict(stream());
    same.write(a);
    EXPECT_TRUE(throws(errc::stream_misuse, "holds leases", [&] { same.preflight(); }));
  }
  {
    // A lease of another thread is a conflict, too: this thread does not wait for it.
    launching_thread writer(runtime(), [&](launch_recorder& r) { r.write(b); });
    writer.await_through();
    auto other = launch_recorder::strict(stream());
    other.read(b);
    EXPECT_TRUE(throws(errc::stream_misuse, "holds leases", [&] { other.preflight(); }));
    EXPECT_EQ(runtime().statistics().leases, 2u);
    writer.commit();
    writer.join();
  }
  // Without a conflict the thread may hold leases of a second launch.
  auto beside = launch_recorder::strict(stream());
  beside.read(a).write(b);
  EXPECT_NO_THROW(beside.preflight());
  EXPECT_EQ(runtime().statistics().leases, 3u);
  (void)beside.commit();
  (void)held.commit();
  EXPECT_EQ(runtime().statistics().leases, 0u);
}

TEST_P(leases_on, a_waiting_writer_does_not_stop_a_reader_that_holds_one) {
  const auto a = fresh();
  auto held = begin_read(a, stream());
  launching_thread writer(runtime(), [&](launch_recorder& r) { r.write(a); });
  await_waiting_writer(a);
  auto second = launch_recorder::strict(stream());
  second.read(a);
  EXPECT_NO_THROW(second.preflight());
  (void)second.commit();
  (void)held.commit();
  writer.await_through();
  writer.commit();
  writer.join();
  EXPECT_FALSE(writer.failure().has_value());
}

TEST_P(leases_on, a_block_freed_while_leased_dies_with_the_last_lease) {
  auto a = fresh();
  const auto kept = a;
  launching_thread user(runtime(), [&](launch_recorder& r) { r.write(kept); });
  user.await_through();
  const auto blocks = runtime().statistics().blocks;
  runtime().deallocate(a.block());
  EXPECT_TRUE(a.stale());
  EXPECT_EQ(runtime().statistics().blocks, blocks) << "the free is not complete yet";
  auto late = launch_recorder::strict(stream());
  late.read(a);
  EXPECT_TRUE(throws(errc::stale_ref, "been freed", [&] { late.preflight(); }));
  EXPECT_TRUE(throws(errc::stale_ref, "", [&] { runtime().deallocate(a.block()); }));
  user.commit();
  user.join();
  EXPECT_FALSE(user.failure().has_value());
  EXPECT_EQ(runtime().statistics().blocks, blocks - 1);
  EXPECT_EQ(runtime().statistics().leases, 0u);
}

TEST_P(leases_on, a_block_dropped_while_leased_is_freed_behind_the_launch) {
  auto a = fresh();
  gate closed;
  auto recorder = begin_write(a, stream());
  closed.hold(stream());
  const std::uint32_t value = 1;
  stream().device().fill(a.data(), &value, sizeof value, a.size(), stream().native());
  a = {};  // the last reference
  EXPECT_EQ(runtime().statistics().blocks, 1u);
  (void)recorder.commit();
  EXPECT_EQ(runtime().statistics().blocks, 0u);
  closed.open();
  stream().synchronize();
}

TEST_P(leases_on, a_writer_that_waits_for_a_block_that_dies_gets_stale_ref) {
  const auto a = fresh();
  launching_thread reader(runtime(), [&](launch_recorder& r) { r.read(a); });
  reader.await_through();
  launching_thread writer(runtime(), [&](launch_recorder& r) { r.write(a); });
  await_waiting_writer(a);
  runtime().deallocate(a.block());
  writer.join();
  ASSERT_TRUE(writer.failure().has_value());
  EXPECT_EQ(writer.failure()->code(), errc::stale_ref);
  reader.commit();
  reader.join();
  EXPECT_EQ(runtime().statistics().blocks, 0u);
}

TEST_P(leases_on, a_recorder_that_waits_for_one_lease_holds_no_other) {
  auto first = fresh();
  auto second = fresh();
  // Leases are taken in the order of the records' addresses.
  if (detail::block_record::of(second.block()) < detail::block_record::of(first.block()))
    std::swap(first, second);
  launching_thread reader(runtime(), [&](launch_recorder& r) { r.read(second); });
  reader.await_through();
  launching_thread both(runtime(), [&](launch_recorder& r) { r.write(first).write(second); });
  await_waiting_writer(second);
  auto& lease = detail::block_record::of(first.block())->lease;
  EXPECT_EQ(lease.try_exclusive(), lease_answer::granted);
  (void)lease.release_exclusive();
  reader.commit();
  reader.join();
  both.await_through();
  both.commit();
  both.join();
  EXPECT_EQ(runtime().statistics().leases, 0u);
}

}  // namespace
}  // namespace sluice::test
