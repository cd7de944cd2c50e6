// SPDX-License-Identifier: Apache-2.0
#include "runtime/timelines/timeline.hpp"

#include "tests/support/compute_sanitizer.hpp"
#include "tests/support/devices.hpp"
#include "tests/support/expect_error.hpp"
#include "tests/support/forwarding_device.hpp"
#include "tests/support/gate.hpp"
#include "tests/support/small_launches.hpp"
#include "tests/support/use_state.hpp"

#include <sluice/runtime/host_device.hpp>
#include <sluice/runtime/host_task.hpp>

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdint>
#include <memory>
#include <thread>
#include <vector>

namespace sluice::test {
namespace {

class timeline_on : public device_test {
 protected:
  [[nodiscard]] detail::timeline& line() const { return *detail::timeline::of(stream()); }
  static std::uint64_t take(detail::timeline& t) {
    t.reserve();
    return t.submit();
  }
};
INSTANTIATE_TEST_SUITE_P(devices, timeline_on, every_device(), parameter_name);

TEST_P(timeline_on, tickets_count_up_from_one) {
  EXPECT_EQ(line().newest(), (timeline_point{stream().id(), 0}));
  EXPECT_TRUE(line().completed(0));
  for (std::uint64_t ticket = 1; ticket <= 100; ++ticket) EXPECT_EQ(take(line()), ticket);
  EXPECT_EQ(line().newest().ticket, 100u);
  EXPECT_EQ(runtime().statistics().launches, 100u);
}

TEST_P(timeline_on, the_watermark_moves_over_completed_events_only) {
  const auto before = take(line());
  line().wait_until(before);
  gate closed;
  closed.hold(stream());
  for (int i = 0; i < 10; ++i) (void)take(line());
  closed.wait_until_reached();
  EXPECT_EQ(line().advance(), before);
  EXPECT_EQ(line().watermark(), before);
  EXPECT_FALSE(line().completed(before + 1));
  closed.open();
  line().wait_until(before + 10);
  EXPECT_EQ(line().watermark(), before + 10);
}

TEST_P(timeline_on, the_watermark_stops_before_the_first_event_that_is_pending) {
  gate first;
  gate second;
  first.hold(stream());
  for (int i = 0; i < 5; ++i) (void)take(line());
  second.hold(stream());
  for (int i = 0; i < 20; ++i) (void)take(line());
  first.open();
  second.wait_until_reached();
  line().wait_until(5);
  EXPECT_EQ(line().advance(), 5u);
  second.open();
  line().wait_until(25);
}

TEST_P(timeline_on, a_ring_grows_behind_a_closed_gate_and_is_used_again) {
  // A GPU's driver blocks the thread when its queue is full.
  const std::uint64_t many = on_host() ? 5000 : 500;
  {
    gate closed;
    closed.hold(stream());
    for (std::uint64_t ticket = 1; ticket <= many; ++ticket) ASSERT_EQ(take(line()), ticket);
    EXPECT_EQ(line().advance(), 0u);
  }
  line().wait_until(many);
  const auto events = runtime().statistics().events;
  EXPECT_GE(events, many);
  EXPECT_LE(events, 8 * many);
  // From now on at most a fifth of these tickets is open, so no further event is created.
  for (std::uint64_t taken = 0; taken < 100'000; taken += many / 5) {
    std::uint64_t last = 0;
    for (std::uint64_t i = 0; i < many / 5; ++i) last = take(line());
    line().wait_until(last);
  }
  EXPECT_EQ(line().watermark(), many + 100'000);
  EXPECT_EQ(runtime().statistics().events, events);
}

TEST_P(timeline_on, launches_in_a_steady_state_make_no_events) {
  const auto a = runtime().allocate<float>(16, stream());
  const auto launch = [&] {
    return begin_write(a, stream()).commit();
  };
  line().wait_until(launch().ticket);
  const auto events = runtime().statistics().events;
  for (int i = 0; i < 2000; ++i) line().wait_until(launch().ticket);
  EXPECT_EQ(runtime().statistics().events, events);
}

TEST_P(timeline_on, reservations_are_kept_while_others_submit) {
  const auto events = runtime().statistics().events;
  gate closed;
  closed.hold(stream());
  for (int i = 0; i < 100; ++i) line().reserve();
  EXPECT_GE(runtime().statistics().events, events + 64) << "a slot for each reservation";
  for (int i = 0; i < 100; ++i) (void)take(line());
  line().unreserve();
  const auto event_count = runtime().statistics().events;
  for (int i = 0; i < 99; ++i) (void)line().submit();
  EXPECT_EQ(runtime().statistics().events, event_count) << "a reserved submission makes none";
  const auto last = line().newest().ticket;
  EXPECT_EQ(last, 199u);
  closed.open();
  line().wait_until(last);
}

TEST_P(timeline_on, waits_that_are_known_to_be_unnecessary_are_skipped) {
  SLUICE_SKIP_UNDER_COMPUTE_SANITIZER("for its sake no wait is skipped");
  const auto other = runtime().create_stream();
  auto& source = *detail::timeline::of(other.ref());
  const auto done = take(source);
  source.wait_until(done);
  EXPECT_FALSE(line().wait_for(source, 0)) << "before all work";
  EXPECT_FALSE(line().wait_for(source, done)) << "complete";
  EXPECT_FALSE(line().wait_for(line(), 7)) << "the same stream";

  gate closed;
  closed.hold(other);
  const auto first = take(source);
  const auto second = take(source);
  const auto third = take(source);
  EXPECT_TRUE(line().wait_for(source, second));
  EXPECT_FALSE(line().wait_for(source, second)) << "waited for already";
  EXPECT_FALSE(line().wait_for(source, first)) << "a later point has been waited for";
  EXPECT_TRUE(line().wait_for(source, third));
  // The cache of awaited tickets belongs to one stream, so another stream must wait.
  const auto another = runtime().create_stream();
  EXPECT_TRUE(detail::timeline::of(another.ref())->wait_for(source, first));
  EXPECT_EQ(line().waits(), 2u);
  EXPECT_EQ(runtime().statistics().waits, 3u) << "those that were queued";
  closed.open();
  line().wait_until(take(line()));
  EXPECT_TRUE(source.completed(third) || source.advance() >= third);
}

TEST_P(timeline_on, a_queued_wait_holds_its_stream_until_the_point_completes) {
  const auto other = runtime().create_stream();
  auto& source = *detail::timeline::of(other.ref());
  gate closed;
  closed.hold(other);
  const auto awaited = take(source);
  EXPECT_TRUE(line().wait_for(source, awaited));
  const auto behind = take(line());
  // A stream without waits is not blocked.
  const auto free = runtime().create_stream();
  free.synchronize();
  EXPECT_LT(line().advance(), behind);
  closed.open();
  line().wait_until(behind);
  EXPECT_GE(source.advance(), awaited) << "the source was behind its waiter";
}

TEST_P(timeline_on, points_of_a_retired_stream_stay_valid) {
  SLUICE_SKIP_UNDER_COMPUTE_SANITIZER("it waits for a stream's work where the stream is destroyed");
  auto going = runtime().create_stream();
  const auto ref = going.ref();
  const auto id = going.id();
  gate closed;
  closed.hold(going);
  const timeline_point point{id, take(*detail::timeline::of(ref))};
  const auto streams = runtime().statistics().streams;
  going = {};
  EXPECT_EQ(runtime().statistics().streams, streams - 1);
  auto* record = detail::runtime_core::of(runtime())->find(id);
  ASSERT_EQ(record, detail::timeline::of(ref));
  EXPECT_TRUE(record->retired());
  EXPECT_FALSE(detail::runtime_core::of(runtime())->settled(point));
  EXPECT_TRUE(line().wait_for(*record, point.ticket)) << "later work can still be ordered after it";
  closed.open();
  ref.synchronize();
  EXPECT_TRUE(detail::runtime_core::of(runtime())->settled(point));
  line().wait_until(take(line()));
}

TEST_P(timeline_on, events_go_with_a_retired_stream_once_its_work_has_completed) {
  SLUICE_SKIP_UNDER_COMPUTE_SANITIZER("for its sake events stay");
  const auto before = runtime().statistics().events;
  auto going = runtime().create_stream();
  const auto id = going.id();
  const auto with_it = runtime().statistics().events;
  EXPECT_GT(with_it, before);
  gate closed;
  closed.hold(going);
  const auto ticket = take(*detail::timeline::of(going.ref()));
  going = {};
  runtime().reap_pending();
  EXPECT_EQ(runtime().statistics().events, with_it) << "its work has not run";
  auto& record = *detail::runtime_core::of(runtime())->find(id);
  closed.open();
  record.wait_until(record.newest().ticket);
  runtime().reap_pending();
  EXPECT_EQ(runtime().statistics().events, before);
  EXPECT_TRUE(detail::runtime_core::of(runtime())->settled({id, ticket})) << "points stay valid";
  EXPECT_FALSE(line().wait_for(record, ticket));
  record.reserve();
  EXPECT_TRUE(
      throws(errc::stream_misuse, "stream has been destroyed", [&] { (void)record.submit(); }));
}

// A wait queued behind a gate remains valid after its event has been destroyed.
TEST_P(timeline_on, waits_that_are_queued_outlast_the_events_of_a_retired_stream) {
  SLUICE_SKIP_UNDER_COMPUTE_SANITIZER("for its sake events stay");
  const auto before = runtime().statistics().events;
  gate closed;
  closed.hold(stream());
  {
    const auto going = runtime().create_stream();
    gate first;
    first.hold(going);
    const auto ticket = take(*detail::timeline::of(going.ref()));
    EXPECT_TRUE(line().wait_for(*detail::timeline::of(going.ref()), ticket));
    first.open();
    going.synchronize();
  }
  await([&] {
    runtime().reap_pending();
    return runtime().statistics().events == before;
  });
  const auto behind = take(line());
  closed.open();
  line().wait_until(behind);
}

// A thread that finds a point completed observes the stream's effects, whether or not its events
// still exist.
TEST_P(timeline_on, points_are_asked_for_while_their_stream_goes) {
  SLUICE_SKIP_UNDER_COMPUTE_SANITIZER("for its sake events stay");
  constexpr int rounds = 300;
  constexpr int threads = 2;
  const auto events = runtime().statistics().events;
  std::vector<sluice::stream> waiting;
  for (int t = 0; t < threads; ++t) waiting.push_back(runtime().create_stream());
  for (int round = 0; round < rounds; ++round) {
    auto going = runtime().create_stream();
    const auto id = going.id();
    auto result = std::make_unique<int>(0);
    if (on_host()) submit_host_task(going, [&] { *result = round; });
    const timeline_point point{id, take(*detail::timeline::of(going.ref()))};
    std::atomic<int> arrived{0};
    std::atomic<int> wrong{0};
    std::vector<std::thread> asking;
    for (int t = 0; t < threads; ++t) {
      asking.emplace_back([&, t] {
        arrived.fetch_add(1, std::memory_order_relaxed);
        auto& mine = *detail::timeline::of(waiting[static_cast<std::size_t>(t)].ref());
        auto& source = *detail::runtime_core::of(runtime())->find(id);
        (void)mine.wait_for(source, point.ticket);
        while (!detail::runtime_core::of(runtime())->settled(point)) source.advance();
        if (on_host() && *result != round) wrong.fetch_add(1, std::memory_order_relaxed);
      });
    }
    await([&] { return arrived.load(std::memory_order_relaxed) == threads; });
    going = {};
    while (!detail::runtime_core::of(runtime())->find(id)->give_up_slots())
      detail::runtime_core::of(runtime())->find(id)->advance();
    for (auto& thread : asking) thread.join();
    EXPECT_EQ(wrong.load(), 0);
    for (const auto& s : waiting) s.synchronize();
  }
  waiting.clear();
  await([&] {
    runtime().reap_pending();
    return runtime().statistics().events <= events;
  });
}

TEST_P(timeline_on, a_retired_stream_takes_no_work) {
  auto going = runtime().create_stream();
  const auto ref = going.ref();
  going = {};
  detail::timeline::of(ref)->reserve();
  EXPECT_TRUE(throws(errc::stream_misuse, "stream has been destroyed",
                     [&] { (void)detail::timeline::of(ref)->submit(); }));
  EXPECT_FALSE(detail::timeline::of(ref)->unless_retired([](native_stream*) {}));
  EXPECT_TRUE(throws(errc::stream_misuse, "stream has been destroyed",
                     [&] { (void)runtime().allocate_bytes(16, ref); }));
  detail::timeline::of(ref)->retire();  // a second call has no effect
}

TEST_P(timeline_on, a_stream_is_not_retired_while_it_is_in_use) {
  auto going = runtime().create_stream();
  auto& timeline = *detail::timeline::of(going.ref());
  std::atomic<bool> retiring{false};
  std::thread other;
  EXPECT_TRUE(timeline.unless_retired([&](native_stream* native) {
    EXPECT_EQ(native, timeline.native());
    other = std::thread([&] {
      retiring.store(true);
      timeline.retire();
    });
    await([&] { return retiring.load(); });
    for (int i = 0; i < 1000; ++i) {
      std::this_thread::yield();
      EXPECT_FALSE(timeline.retired());
    }
  }));
  other.join();
  EXPECT_TRUE(timeline.retired());
}

TEST_P(timeline_on, stream_ids_are_never_used_again) {
  std::vector<stream_id> seen;
  for (int i = 0; i < 20; ++i) {
    const auto s = runtime().create_stream();
    EXPECT_EQ(std::find(seen.begin(), seen.end(), s.id()), seen.end());
    seen.push_back(s.id());
  }
}

TEST_P(timeline_on, streams_and_points_of_another_runtime_are_refused) {
  device_runtime other(open_device(GetParam()));
  const auto foreign = other.create_stream();
  EXPECT_NE(foreign.id().runtime, stream().id().runtime);
  EXPECT_EQ(detail::runtime_core::of(runtime())->find(foreign.id()), nullptr);
  EXPECT_TRUE(throws(errc::stream_misuse, "not a stream of this runtime",
                     [&] { (void)detail::runtime_core::of(runtime())->require(foreign); }));
  EXPECT_TRUE(throws(errc::stream_misuse, "not a stream of this runtime",
                     [&] { (void)runtime().allocate_bytes(16, foreign); }));
  EXPECT_TRUE(throws(errc::stream_misuse, "no stream",
                     [&] { (void)runtime().allocate_bytes(16, stream_ref()); }));
}

TEST_P(timeline_on, owners_of_streams_move) {
  auto a = runtime().create_stream();
  auto b = runtime().create_stream();
  const auto ref_a = a.ref();
  const auto ref_b = b.ref();
  const auto streams = runtime().statistics().streams;
  a = std::move(b);
  EXPECT_EQ(a.ref(), ref_b);
  EXPECT_TRUE(detail::timeline::of(ref_a)->retired()) << "the assigned owner gave up its stream";
  EXPECT_EQ(runtime().statistics().streams, streams - 1);
  auto& same = a;
  a = std::move(same);
  EXPECT_EQ(a.ref(), ref_b);
  EXPECT_FALSE(detail::timeline::of(ref_b)->retired());
  const auto c = std::move(a);
  EXPECT_EQ(c.ref(), ref_b);
  EXPECT_FALSE(a);  // NOLINT(bugprone-use-after-move): moving leaves an empty owner
  c.synchronize();
}

TEST_P(timeline_on, no_stream_is_an_error) {
  const stream_ref none;
  EXPECT_FALSE(none);
  EXPECT_EQ(none.id(), stream_id{});
  EXPECT_TRUE(throws(errc::stream_misuse, "no stream", [&] { (void)none.device(); }));
  EXPECT_TRUE(throws(errc::stream_misuse, "no stream", [&] { (void)none.native(); }));
  EXPECT_TRUE(throws(errc::stream_misuse, "no stream", [&] { none.synchronize(); }));
  EXPECT_TRUE(throws(errc::stream_misuse, "no stream", [&] { (void)none.completed(1); }));
}
static_assert(!std::is_constructible_v<stream_ref, int>);
static_assert(!std::is_constructible_v<stream_ref, std::nullptr_t>);
static_assert(!std::is_copy_constructible_v<sluice::stream>);

// Several threads use one stream: a completed ticket means that its own work has run.
TEST_P(timeline_on, a_completed_ticket_stands_for_its_own_work) {
  constexpr int threads = 3;
  constexpr std::size_t launches = 2000;
  struct one {
    std::atomic<bool> ran{false};
    std::uint64_t ticket = 0;
  };
  std::array<std::vector<one>, threads> all{};
  for (auto& list : all) list = std::vector<one>(launches);
  std::atomic<int> wrong{0};
  std::atomic<int> running{threads};
  std::vector<std::thread> submitting;
  for (auto& list : all) {
    submitting.emplace_back([&] {
      for (auto& launch : list) {
        line().reserve();
        if (on_host()) {
          submit_host_task(stream(), [&launch] { launch.ran.store(true); });
        } else if (&launch - list.data() < 200) {  // host functions are slow on a GPU
          runtime().device().notify(stream().native(), [&launch] { launch.ran.store(true); });
        } else {
          launch.ran.store(true);
        }
        launch.ticket = line().submit();
        if (line().completed(launch.ticket) && !launch.ran.load()) wrong.fetch_add(1);
      }
      running.fetch_sub(1);
    });
  }
  std::uint64_t seen = 0;
  while (running.load() != 0) {
    const auto now = line().advance();
    if (now < seen) wrong.fetch_add(1);
    seen = now;
  }
  for (auto& thread : submitting) thread.join();
  std::vector<std::uint64_t> tickets;
  for (auto& list : all) {
    for (auto& launch : list) {
      line().wait_until(launch.ticket);
      EXPECT_TRUE(launch.ran.load());
      tickets.push_back(launch.ticket);
    }
  }
  std::sort(tickets.begin(), tickets.end());
  for (std::size_t i = 0; i < tickets.size(); ++i) ASSERT_EQ(tickets[i], i + 1);
  EXPECT_EQ(wrong.load(), 0);
}

// A stalled stream

/// A host device that counts queries of events.
class asked_device final : public forwarding_device {
 public:
  asked_device() : forwarding_device({device_kind::host, 0}, open_host_device()) {}
  [[nodiscard]] int questions() const { return questions_.load(); }
  event_state query(native_event* e, std::uint64_t value) noexcept override {
    questions_.fetch_add(1);
    return forwarding_device::query(e, value);
  }

 private:
  std::atomic<int> questions_{0};
};

TEST(timeline_of_a_stream_behind_a_gate, asks_its_device_a_few_times_for_each_ring) {
  const auto device = std::make_shared<asked_device>();
  device_runtime runtime(device);
  const auto s = runtime.create_stream();
  auto& line = *detail::timeline::of(s.ref());
  const auto launch = [&](int times) {
    for (int i = 0; i < times; ++i) {
      line.reserve();
      (void)line.submit();
    }
  };
  constexpr int first_ring = 32;
  gate closed;
  closed.hold(s);
  launch(first_ring);
  EXPECT_GT(device->questions(), 0) << "a ring is full before anybody has asked";
  constexpr int rings = 7;  // each doubles the number of open tickets
  launch(first_ring * ((1 << rings) - 1));
  EXPECT_GE(device->questions(), rings);
  EXPECT_LE(device->questions(), rings * 8) << "of " << (first_ring << rings) << " launches";
  closed.open();
  line.wait_until(line.newest().ticket);
}

// Synchronization while another thread advances the watermark

/// A host device that lets a test stop a querying thread and detects when a stream has been
/// synchronized.
class stopping_device final : public forwarding_device {
 public:
  stopping_device() : forwarding_device({device_kind::host, 0}, open_host_device()) {}
  std::atomic<bool> stops{false};
  std::atomic<bool> stopped{false};
  std::atomic<bool> synchronized{false};

  event_state query(native_event* e, std::uint64_t value) noexcept override {
    if (stops.exchange(false)) {
      stopped.store(true);
      await([&] { return !stopped.load(); });
    }
    return forwarding_device::query(e, value);
  }
  void synchronize(native_stream* s) override {
    forwarding_device::synchronize(s);
    synchronized.store(true);
  }
};

TEST(timeline_that_another_thread_advances, knows_what_was_synchronized) {
  const auto device = std::make_shared<stopping_device>();
  device_runtime runtime(device);
  for (int round = 0; round < 20; ++round) {
    const auto s = runtime.create_stream();
    auto& line = *detail::timeline::of(s.ref());
    line.reserve();
    const auto ticket = line.submit();
    device->stops.store(true);
    std::thread other([&] { line.advance(); });
    await([&] { return device->stopped.load(); });
    device->synchronized.store(false);
    bool completed = false;
    std::thread synchronizing([&] {
      s.synchronize();
      completed = s.ref().completed(ticket);
    });
    await([&] { return device->synchronized.load(); });
    // A synchronization that ignores the timeline would return now.
    let_others_run(1000);
    device->stopped.store(false);
    synchronizing.join();
    other.join();
    EXPECT_TRUE(completed);
  }
}

// Retired streams

TEST(timelines_of_retired_streams, are_visited_no_more_once_their_work_has_completed) {
  device_runtime runtime(open_host_device());
  const auto visits = [&] {
    int count = 0;
    detail::runtime_core::of(runtime)->for_each_timeline([&](detail::timeline&) { ++count; });
    return count;
  };
  const auto stays = runtime.create_stream();
  std::uint64_t launches = 0;
  for (int i = 0; i < 300; ++i) {
    const auto s = runtime.create_stream();
    detail::timeline::of(s.ref())->reserve();
    (void)detail::timeline::of(s.ref())->submit();
    launches += 2;  // the second ticket belongs to the retirement
  }
  await([&] {
    runtime.reap_pending();
    return visits() <= 2;  // one of them visits the runtime's own stream
  });
  EXPECT_EQ(runtime.statistics().launches, launches) << "are counted all the same";
  EXPECT_EQ(runtime.statistics().streams, 2u);
}

// After a loss

TEST(timeline_of_a_lost_device, stops) {
  device_runtime runtime(open_host_device());
  const auto s = runtime.create_stream();
  auto& line = *detail::timeline::of(s.ref());
  line.reserve();
  const auto first = line.submit();
  line.wait_until(first);
  gate closed;
  closed.hold(s);
  line.reserve();
  const auto second = line.submit();
  runtime.device().lose(error(errc::library_failure, "smoke"));
  line.reserve();
  EXPECT_TRUE(throws(errc::device_lost, "smoke", [&] { (void)line.submit(); }));
  EXPECT_EQ(line.newest().ticket, second) << "no ticket was taken";
  EXPECT_TRUE(throws(errc::device_lost, "smoke", [&] { line.wait_until(second); }));
  EXPECT_TRUE(throws(errc::device_lost, "smoke", [&] { s.synchronize(); }));
  EXPECT_EQ(line.watermark(), first);
}

}  // namespace
}  // namespace sluice::test
