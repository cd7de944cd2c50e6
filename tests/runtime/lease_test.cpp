#include "runtime/lease.hpp"

#include "tests/runtime/followed_launch.hpp"
#include "tests/runtime/use_state.hpp"
#include "tests/support/devices.hpp"
#include "tests/support/expect_error.hpp"
#include "tests/support/gate.hpp"
#include "tests/support/seed.hpp"

#include <sluice/runtime/host_task.hpp>

#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <chrono>
#include <memory>
#include <optional>
#include <random>
#include <thread>
#include <vector>

namespace sluice::test {
namespace {

using detail::lease;
using detail::lease_answer;

// One lease by itself

class one_lease : public ::testing::Test {
 protected:
  one_lease() { tested.revive(); }
  lease tested;
};

TEST(lease_of_no_block, is_dying) {
  lease none;
  EXPECT_TRUE(none.dying());
  EXPECT_EQ(none.try_shared(), lease_answer::dying);
  EXPECT_EQ(none.try_exclusive(), lease_answer::dying);
  EXPECT_EQ(none.mark_dying(), lease::end::dead_already);
}

TEST_F(one_lease, readers_share) {
  EXPECT_EQ(tested.try_shared(), lease_answer::granted);
  EXPECT_EQ(tested.try_shared(), lease_answer::granted);
  EXPECT_EQ(tested.try_exclusive(), lease_answer::conflict);
  EXPECT_FALSE(tested.release_shared());
  EXPECT_EQ(tested.try_exclusive(), lease_answer::conflict);
  EXPECT_FALSE(tested.release_shared());
  EXPECT_EQ(tested.try_exclusive(), lease_answer::granted);
}

TEST_F(one_lease, a_writer_excludes_everybody) {
  EXPECT_EQ(tested.try_exclusive(), lease_answer::granted);
  EXPECT_EQ(tested.try_exclusive(), lease_answer::conflict);
  EXPECT_EQ(tested.try_shared(), lease_answer::conflict);
  EXPECT_EQ(tested.try_shared(true), lease_answer::conflict);
  EXPECT_FALSE(tested.release_exclusive());
  EXPECT_EQ(tested.try_shared(), lease_answer::granted);
}

TEST_F(one_lease, a_waiting_writer_stops_new_readers_that_hold_nothing) {
  EXPECT_EQ(tested.try_shared(), lease_answer::granted);
  tested.announce_writer();
  EXPECT_EQ(tested.try_shared(), lease_answer::conflict);
  EXPECT_EQ(tested.try_shared(true), lease_answer::granted);
  EXPECT_FALSE(tested.release_shared());
  EXPECT_FALSE(tested.release_shared());
  EXPECT_EQ(tested.try_shared(), lease_answer::conflict);
  EXPECT_EQ(tested.try_exclusive(), lease_answer::granted);
  tested.withdraw_writer();
  EXPECT_FALSE(tested.release_exclusive());
  EXPECT_EQ(tested.try_shared(), lease_answer::granted);
}

TEST_F(one_lease, who_returns_the_last_one_of_a_dying_block_completes_its_free) {
  EXPECT_EQ(tested.try_shared(), lease_answer::granted);
  EXPECT_EQ(tested.try_shared(), lease_answer::granted);
  EXPECT_EQ(tested.mark_dying(), lease::end::leased);
  EXPECT_EQ(tested.mark_dying(), lease::end::dead_already);
  EXPECT_EQ(tested.try_shared(), lease_answer::dying);
  EXPECT_FALSE(tested.release_shared());
  EXPECT_TRUE(tested.release_shared());
  tested.revive();
  EXPECT_EQ(tested.try_exclusive(), lease_answer::granted);
  EXPECT_EQ(tested.mark_dying(), lease::end::leased);
  EXPECT_TRUE(tested.release_exclusive());
  tested.revive();
  EXPECT_EQ(tested.mark_dying(), lease::end::complete_now);
}

TEST_F(one_lease, waiting_ends_when_the_way_is_free_or_the_block_dies) {
  EXPECT_EQ(tested.try_exclusive(), lease_answer::granted);
  std::thread reader([&] { tested.wait_shared(); });
  std::thread writer([&] { tested.wait_exclusive(); });
  EXPECT_FALSE(tested.release_exclusive());
  reader.join();
  writer.join();
  EXPECT_EQ(tested.try_exclusive(), lease_answer::granted);
  std::thread late_reader([&] { tested.wait_shared(); });
  std::thread late_writer([&] { tested.wait_exclusive(); });
  EXPECT_EQ(tested.mark_dying(), lease::end::leased);
  late_reader.join();
  late_writer.join();
}

// A lost wake-up would hang here. Whoever holds the lease keeps it long enough, now and then, for
// the others to fall asleep.
TEST_F(one_lease, loses_no_wake_up) {
  auto generator = make_generator();
  const auto run = [&](bool writes, std::uint64_t seed) {
    std::mt19937_64 draw(seed);
    for (int round = 0; round < 400; ++round) {
      if (writes) {
        tested.announce_writer();
        while (tested.try_exclusive() != lease_answer::granted) tested.wait_exclusive();
        tested.withdraw_writer();
      } else {
        while (tested.try_shared() != lease_answer::granted) tested.wait_shared();
      }
      for (auto yields = draw() % 200; yields != 0; --yields) std::this_thread::yield();
      (void)(writes ? tested.release_exclusive() : tested.release_shared());
    }
  };
  std::vector<std::thread> threads;
  for (const bool writes : {true, false, false}) {
    threads.emplace_back(run, writes, generator());
  }
  for (auto& thread : threads) thread.join();
}

TEST_F(one_lease, a_writer_that_gives_up_wakes_the_readers) {
  auto generator = make_generator();
  for (int round = 0; round < 300; ++round) {
    tested.announce_writer();
    std::thread reader([&] { tested.wait_shared(); });
    for (auto yields = generator() % 200; yields != 0; --yields) std::this_thread::yield();
    tested.withdraw_writer();
    reader.join();
  }
}

// Exactly one party completes the free, whatever the order of the last return and the mark.
TEST_F(one_lease, exactly_one_party_completes_a_free) {
  for (int round = 0; round < 500; ++round) {
    ASSERT_EQ(tested.try_shared(), lease_answer::granted);
    ASSERT_EQ(tested.try_shared(), lease_answer::granted);
    std::atomic<int> completed{0};
    std::atomic<int> arrived{0};
    const auto meet = [&] {
      arrived.fetch_add(1);
      await([&] { return arrived.load() == 3; });
    };
    const auto give_back = [&] {
      meet();
      if (tested.release_shared()) completed.fetch_add(1);
    };
    std::thread first(give_back);
    std::thread second(give_back);
    meet();
    if (tested.mark_dying() == lease::end::complete_now) completed.fetch_add(1);
    first.join();
    second.join();
    ASSERT_EQ(completed.load(), 1);
    tested.revive();
  }
}

// Recorders of several threads

class leases_on : public device_test {
 protected:
  void SetUp() override {
    device_test::SetUp();
    if (!IsSkipped()) followed_launch::allow(runtime());
  }
  [[nodiscard]] gpu_ref<float> fresh() { return runtime().allocate<float>(16, stream(), "test"); }
  /// Blocks until a writer waits for the block, which readers hold.
  static void await_waiting_writer(const gpu_ref<float>& ref) {
    auto& lease = ref.block().record()->lease;
    await([&] {
      if (lease.try_shared() != lease_answer::granted) return true;
      (void)lease.release_shared();
      return false;
    });
  }
};
INSTANTIATE_TEST_SUITE_P(devices, leases_on, every_device(), parameter_name);

/// A thread that preflights what `note` records, stops until it is told to commit, and commits.
class launching_thread {
 public:
  template <class Note>
  launching_thread(device_runtime& runtime, Note note)
      : stream_(runtime.create_stream()), thread_([this, note] {
          const followed_launch::here here(steps_);
          try {
            auto recorder = launch_recorder::strict(stream_);
            note(recorder);
            recorder.preflight();
            through_.store(true);
            await([this] { return may_commit_.load(); });
            point_ = recorder.commit();
          } catch (const error& e) {
            failure_ = e;
            failed_.store(true);
          }
        }) {}
  launching_thread(const launching_thread&) = delete;
  launching_thread& operator=(const launching_thread&) = delete;
  ~launching_thread() {
    may_commit_.store(true);
    if (thread_.joinable()) thread_.join();
  }

  /// Until it has found a lease in its way.
  void await_blocked() const {
    await([this] { return steps_.blocked(); });
  }
  void await_through() const {
    await([this] { return through_.load() || failed_.load(); });
  }
  [[nodiscard]] bool through() const { return through_.load(); }
  void commit() { may_commit_.store(true); }
  timeline_point join() {
    thread_.join();
    return point_;
  }
  [[nodiscard]] const std::optional<error>& failure() const { return failure_; }
  [[nodiscard]] stream_ref stream() const { return stream_; }

 private:
  sluice::stream stream_;
  followed_launch steps_;
  std::atomic<bool> through_{false};
  std::atomic<bool> may_commit_{false};
  std::atomic<bool> failed_{false};
  timeline_point point_;
  std::optional<error> failure_;
  std::thread thread_;
};

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
    EXPECT_TRUE(uses_of(a).holds(point) || runtime().core()->settled(point));
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
  EXPECT_FALSE(writer.stream().timeline()->wait_for(*reader.stream().timeline(), read.ticket))
      << "the wait for the read has not been queued";
  writer.commit();
  EXPECT_EQ(uses_of(a).last_write, writer.join());
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
  EXPECT_FALSE(reader.stream().timeline()->wait_for(*writer.stream().timeline(), written.ticket));
  reader.commit();
  const auto read = reader.join();
  EXPECT_TRUE(uses_of(a).holds(read) || runtime().core()->settled(read));
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
  const auto once = statistics();
  EXPECT_EQ(once.lease_waits, 1u);
  EXPECT_GT(once.lease_wait_total, nanoseconds(0));
  EXPECT_EQ(once.lease_wait_longest, once.lease_wait_total);

  launching_thread third(runtime(), [&](launch_recorder& r) { r.read(a); });
  third.await_through();
  launching_thread fourth(runtime(), [&](launch_recorder& r) { r.write(a); });
  await([&] { return statistics().lease_waits == 2; });
  third.commit();
  (void)third.join();
  fourth.commit();
  (void)fourth.join();
  const auto twice = statistics();
  EXPECT_EQ(twice.lease_waits, 2u);
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
  EXPECT_FALSE(second.stream().timeline()->wait_for(*first.stream().timeline(), written.ticket));
  second.commit();
  EXPECT_EQ(uses_of(a).last_write, second.join());
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
  auto held = launch_recorder::strict(stream());
  held.read(a);
  held.preflight();
  {
    auto same = launch_recorder::strict(stream());
    same.write(a);
    EXPECT_TRUE(throws(errc::stream_misuse, "holds a lease", [&] { same.preflight(); }));
  }
  {
    // Another thread's lease conflicts just as well: the thread does not wait for it.
    launching_thread writer(runtime(), [&](launch_recorder& r) { r.write(b); });
    writer.await_through();
    auto other = launch_recorder::strict(stream());
    other.read(b);
    EXPECT_TRUE(throws(errc::stream_misuse, "holds a lease", [&] { other.preflight(); }));
    EXPECT_EQ(runtime().statistics().leases, 2u);
    writer.commit();
    writer.join();
  }
  // Without a conflict it may hold a second one.
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
  auto held = launch_recorder::strict(stream());
  held.read(a);
  held.preflight();
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
  EXPECT_TRUE(throws(errc::stale_ref, "given back", [&] { late.preflight(); }));
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
  auto recorder = launch_recorder::strict(stream());
  recorder.write(a);
  recorder.preflight();
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
  if (second.block().record() < first.block().record()) std::swap(first, second);
  launching_thread reader(runtime(), [&](launch_recorder& r) { r.read(second); });
  reader.await_through();
  launching_thread both(runtime(), [&](launch_recorder& r) { r.write(first).write(second); });
  await_waiting_writer(second);
  auto& lease = first.block().record()->lease;
  EXPECT_EQ(lease.try_exclusive(), lease_answer::granted);
  (void)lease.release_exclusive();
  reader.commit();
  reader.join();
  both.await_through();
  both.commit();
  both.join();
  EXPECT_EQ(runtime().statistics().leases, 0u);
}

TEST_P(leases_on, crossed_orders_do_not_deadlock) {
  const auto a = fresh();
  const auto b = fresh();
  const auto run = [&](const gpu_ref<float>& first, const gpu_ref<float>& second) {
    const auto on = runtime().create_stream();
    for (int i = 0; i < 500; ++i) {
      auto recorder = launch_recorder::strict(on);
      recorder.write(first).write(second);
      recorder.preflight();
      (void)recorder.commit();
    }
  };
  std::thread one([&] { run(a, b); });
  std::thread two([&] { run(b, a); });
  one.join();
  two.join();
  EXPECT_EQ(runtime().statistics().leases, 0u);
}

// Each order alone would be in address order, and yet they wait for each other.
TEST_P(leases_on, threads_that_hold_and_want_crosswise_are_refused) {
  const auto a = fresh();
  const auto b = fresh();
  std::atomic<int> holding{0};
  std::atomic<int> refused{0};
  const auto run = [&](const gpu_ref<float>& held, const gpu_ref<float>& wanted) {
    const auto on = runtime().create_stream();
    auto first = launch_recorder::strict(on);
    first.write(held);
    first.preflight();
    holding.fetch_add(1);
    await([&] { return holding.load() >= 2; });
    auto second = launch_recorder::strict(on);
    second.write(wanted);
    try {
      second.preflight();
      (void)second.commit();
    } catch (const error& e) {
      if (e.code() == errc::stream_misuse) refused.fetch_add(1);
    }
    holding.fetch_add(1);
    await([&] { return holding.load() >= 4; });
    (void)first.commit();
  };
  std::thread one([&] { run(a, b); });
  std::thread two([&] { run(b, a); });
  one.join();
  two.join();
  EXPECT_EQ(refused.load(), 2);
  EXPECT_EQ(runtime().statistics().leases, 0u);
}

// Random sets of blocks from several threads: whoever is between preflight and commit really holds
// what it recorded.
TEST_P(leases_on, exclude_each_other_under_load) {
  constexpr std::size_t blocks = 6;
  constexpr int threads = 4;
  constexpr int rounds = 400;
  std::vector<gpu_ref<float>> refs;
  for (std::size_t i = 0; i < blocks; ++i) refs.push_back(fresh());
  struct occupants {
    std::atomic<int> readers{0};
    std::atomic<int> writers{0};
  };
  std::array<occupants, blocks> inside;
  std::atomic<int> violations{0};
  std::array<std::uint64_t, threads> seeds;
  auto generator = make_generator();
  for (auto& seed : seeds) seed = generator();

  const auto run = [&](std::uint64_t seed) {
    std::mt19937_64 draw(seed);
    const auto on = runtime().create_stream();
    for (int round = 0; round < rounds; ++round) {
      std::array<int, blocks> access{};
      auto recorder = launch_recorder::strict(on);
      for (std::size_t i = 0; i < blocks; ++i) {
        access[i] = static_cast<int>(draw() % 4);  // half of the blocks are not used
        if (access[i] == 1) recorder.read(refs[i]);
        if (access[i] == 2) recorder.write(refs[i]);
      }
      recorder.preflight();
      for (std::size_t i = 0; i < blocks; ++i) {
        if (access[i] == 1) {
          inside[i].readers.fetch_add(1);
          if (inside[i].writers.load() != 0) violations.fetch_add(1);
        } else if (access[i] == 2) {
          if (inside[i].writers.fetch_add(1) != 0) violations.fetch_add(1);
          if (inside[i].readers.load() != 0) violations.fetch_add(1);
        }
      }
      std::this_thread::yield();
      for (std::size_t i = 0; i < blocks; ++i) {
        if (access[i] == 1) inside[i].readers.fetch_sub(1);
        if (access[i] == 2) inside[i].writers.fetch_sub(1);
      }
      (void)recorder.commit();
    }
  };
  std::vector<std::thread> running;
  for (int i = 0; i < threads; ++i) {
    running.emplace_back(run, seeds[static_cast<std::size_t>(i)]);
  }
  for (auto& thread : running) thread.join();
  EXPECT_EQ(violations.load(), 0);
  EXPECT_EQ(runtime().statistics().leases, 0u);
  EXPECT_EQ(runtime().statistics().recorders_abandoned, 0u);
}

// Whatever else goes on: streams, reclaiming, destructors and frees never take a lease, and so
// never wait for one.
TEST_P(leases_on, are_taken_in_preflight_only) {
  constexpr int threads = 3;
  constexpr int rounds = 200;
  device_runtime tracked(open_device(GetParam()),
                         {.resource = make_direct_resource({.tracked = true})});
  static thread_local bool in_preflight;
  std::atomic<int> taken{0};
  std::atomic<int> elsewhere{0};
  tracked.core()->at_each_step([&](detail::launch_step step) {
    if (step != detail::launch_step::leasing && step != detail::launch_step::blocked) return;
    (in_preflight ? taken : elsewhere).fetch_add(1);
  });
  const auto owner = tracked.create_stream();
  auto shared = tracked.allocate<float>(16, owner, "shared");

  const auto run = [&](std::uint64_t seed) {
    std::mt19937_64 draw(seed);
    const auto on = tracked.create_stream();
    for (int round = 0; round < rounds; ++round) {
      auto own = tracked.allocate<float>(16, on, "own");
      auto recorder = launch_recorder::strict(on);
      recorder.read(shared).write(own);
      in_preflight = true;
      recorder.preflight();
      in_preflight = false;
      switch (draw() % 4) {
        case 0:
          tracked.deallocate(own.block());  // dies with the lease
          break;
        case 1:
          own = {};
          break;
        case 2:
          if (on_host()) {
            // The stream may be the one that drops the last reference, and a recorder.
            auto other = std::make_shared<launch_recorder>(launch_recorder::strict(on));
            other->read(own);
            submit_host_task(on, [kept = own, other] { (void)kept; });
          }
          break;
        default:
          recorder.cancel();
          continue;
      }
      if (draw() % 2 == 0) (void)recorder.commit();
    }
  };
  ::testing::internal::CaptureStderr();  // recorders that go without a commit are reported
  auto generator = make_generator();
  std::vector<std::thread> running;
  for (int i = 0; i < threads; ++i) running.emplace_back(run, generator());
  for (auto& thread : running) thread.join();
  shared = {};
  owner.synchronize();
  (void)tracked.shut_down();
  (void)::testing::internal::GetCapturedStderr();
  EXPECT_GE(taken.load(), 2 * threads * rounds);
  EXPECT_EQ(elsewhere.load(), 0);
  EXPECT_EQ(tracked.statistics().leases, 0u);
}

}  // namespace
}  // namespace sluice::test
