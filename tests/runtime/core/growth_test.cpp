// SPDX-License-Identifier: Apache-2.0
// A million launches do not make the runtime grow.
#include "runtime/base/size_class.hpp"
#include "runtime/core/runtime_core.hpp"
#include "runtime/host/annotations.hpp"
#include "tests/support/compute_sanitizer.hpp"
#include "tests/support/devices.hpp"
#include "tests/support/heap.hpp"
#include "tests/support/seed.hpp"
#include "tests/support/use_state.hpp"

#include <sluice/runtime/device_runtime.hpp>
#include <sluice/runtime/memory_adaptors.hpp>
#include <sluice/runtime/memory_budget.hpp>

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <limits>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

namespace sluice::test {
namespace {

/// The full number of launches, unless a tool makes them a hundred times slower.
int launches() {
  return host::thread_sanitizer_on || under_compute_sanitizer() ? 10'000 : 1'000'000;
}

/// Limits the unfinished launches of one stream without querying the runtime.
class throttle {
 public:
  throttle(stream_ref stream, std::size_t most) : stream_(stream), most_(most) {
    for (auto& e : events_) e = stream.device().create_event();
  }
  throttle(const throttle&) = delete;
  throttle& operator=(const throttle&) = delete;
  ~throttle() {
    for (auto* e : events_) stream_.device().destroy_event(e);
  }

  /// Call it after each launch. Returns when at most `most` launches are in flight.
  void pass() {
    constexpr std::size_t apart = 16;
    if (++launched_ % (most_ / apart) != 0) return;
    auto& device = stream_.device();
    auto* const event = events_[recorded_ % apart];
    const auto oldest = recorded_ < apart ? 0 : recorded_ - apart + 1;
    if (oldest != 0) {
      while (device.query(event, oldest) == event_state::pending) std::this_thread::yield();
    }
    device.record(event, ++recorded_, stream_.native());
  }

 private:
  stream_ref stream_;
  std::size_t most_;
  std::array<native_event*, 16> events_{};
  std::size_t launched_ = 0;
  std::uint64_t recorded_ = 0;
};

class growth_on : public named_device_test {
 protected:
  static constexpr std::size_t stream_count = 8;
  // Every stream begins with one ring of events, which doubles when it is full. Only the test's
  // streams and the runtime's own stream take tickets.
  static constexpr std::size_t first_rings = 32 * (stream_count + 1);

  void SetUp() override {
    named_device_test::SetUp();
    if (IsSkipped()) return;
    held_ = std::make_shared<memory_statistics>();
    taken_ = std::make_shared<memory_statistics>();
    runtime_ = std::make_unique<device_runtime>(
        open_device(GetParam()),
        runtime_options{.resource = make_statistics_resource(
                            make_budget_resource(make_pool_resource(make_statistics_resource(
                                                     make_async_resource(), taken_)),
                                                 std::make_shared<memory_budget>()),
                            held_)});
    for (auto& s : streams_) s = runtime_->create_stream();
  }

  [[nodiscard]] device_runtime& runtime() const { return *runtime_; }
  [[nodiscard]] const stream& nth_stream(std::size_t i) const { return streams_[i % stream_count]; }
  /// The memory that users hold, and the memory that the pool took for it.
  [[nodiscard]] memory_counters held() const { return held_->counters(); }
  [[nodiscard]] memory_counters taken() const { return taken_->counters(); }

  timeline_point use(const gpu_ref<std::uint32_t>& in, const gpu_ref<std::uint32_t>& out,
                     stream_ref stream) {
    auto recorder = launch_recorder::strict(stream);
    if (in) recorder.read(in);
    if (out) recorder.write(out);
    recorder.preflight();
    if (out) {
      const std::uint32_t value = 7;
      stream.device().fill(out.data(), &value, sizeof value, out.size(), stream.native());
    }
    return recorder.commit();
  }
  /// Waits until all work has completed and the runtime knows it.
  void rest() {
    for (const auto& s : streams_) s.synchronize();
    runtime().reap_pending();
  }

 private:
  std::shared_ptr<memory_statistics> held_;
  std::shared_ptr<memory_statistics> taken_;
  std::unique_ptr<device_runtime> runtime_;
  std::array<stream, stream_count> streams_;
};
INSTANTIATE_TEST_SUITE_P(devices, growth_on, every_device(), parameter_name);

TEST_P(growth_on, a_block_that_is_read_often_keeps_a_point_per_stream) {
  const auto a = runtime().allocate<std::uint32_t>(1000, nth_stream(0), "read often");
  const auto before = runtime().statistics().points;
  for (int i = 0; i < launches(); ++i) {
    use(a, {}, nth_stream(static_cast<std::size_t>(i)));
    if (i % 4096 == 0) {
      ASSERT_LE(uses_of(a).all.size(), stream_count);
      ASSERT_LE(runtime().statistics().points, before + stream_count);
    }
  }
  EXPECT_LE(uses_of(a).all.size(), stream_count);
  rest();
  EXPECT_EQ(runtime().statistics().launches, static_cast<std::uint64_t>(launches()) + 1);
}

TEST_P(growth_on, events_are_as_many_as_launches_in_flight_need) {
  constexpr std::size_t in_flight = 500;
  const auto a = runtime().allocate<std::uint32_t>(1000, nth_stream(0));
  for (std::size_t i = 0; i < static_cast<std::size_t>(launches()); ++i) {
    use(a, {}, nth_stream(i));
    if (i % in_flight == in_flight - 1) rest();
  }
  rest();
  EXPECT_LE(runtime().statistics().events, first_rings + 4 * in_flight);
}

// Only the launches themselves query how far the stream has advanced.
TEST_P(growth_on, a_stream_that_nobody_synchronises_keeps_few_events) {
  constexpr std::size_t in_flight = 256;
  const auto a = runtime().allocate<std::uint32_t>(64, nth_stream(0));
  rest();
  const auto before = runtime().statistics().events;
  throttle few(nth_stream(0), in_flight);
  for (int i = 0; i < std::min(launches(), 100'000); ++i) {
    use(a, a, nth_stream(0));
    few.pass();
  }
  // A ring that is more than half full is queried. If that does not help, it doubles, and smaller
  // rings stay.
  EXPECT_LE(runtime().statistics().events, before + 4 * in_flight);
}

// Everything whose size depends on the launches in flight first grows to its maximum, so that
// nothing may grow afterwards on any device.
TEST_P(growth_on, a_million_launches_later_all_is_where_it_began) {
  auto random = make_generator();
  constexpr std::size_t inputs = 4;
  constexpr int max_in_flight = 512;
  constexpr std::size_t smallest = 64;  // the number of elements of a result
  constexpr std::size_t largest = 1063;
  std::vector<gpu_ref<std::uint32_t>> in;
  for (std::size_t i = 0; i < inputs; ++i) {
    in.push_back(runtime().allocate<std::uint32_t>(256, nth_stream(i), "input"));
  }
  const auto round = [&](int count) {
    for (int i = 0; i < count; ++i) {
      const auto& stream = nth_stream(random() % stream_count);
      // The result is dropped at once, so its memory returns to the pool with the points of this
      // launch.
      const auto out = runtime().allocate<std::uint32_t>(
          smallest + random() % (largest - smallest + 1), stream, "result");
      use(in[random() % inputs], out, stream);
      if (i % max_in_flight == max_in_flight - 1) rest();
    }
    rest();
  };
  // Events: between two rests a stream takes at most one ticket for each launch and one for its
  // allocation. Its rings also hold reserved tickets.
  for (std::size_t s = 0; s < stream_count; ++s) {
    auto& tickets = *detail::timeline::of(nth_stream(s).ref());
    for (int i = 0; i < 2 * max_in_flight; ++i) tickets.reserve();
    for (int i = 0; i < 2 * max_in_flight; ++i) tickets.unreserve();
  }
  // Memory: the pool takes a block for a stream if it has none of this stream and no other block is
  // usable. There is one result at a time, so each stream needs at most one block of each size.
  {
    std::vector<gpu_ref<std::uint32_t>> every;
    for (std::size_t s = 0; s < stream_count; ++s) {
      std::size_t last = 0;
      for (auto elements = smallest; elements <= largest; ++elements) {
        const auto size = detail::size_class(elements * sizeof(std::uint32_t));
        if (std::exchange(last, size) == size) continue;
        every.push_back(runtime().allocate<std::uint32_t>(elements, nth_stream(s), "result"));
      }
    }
  }
  rest();
  // Points: a read on a stream that has a point replaces it by the newer one. A read on another
  // stream adds a point and removes those known to have completed; nothing queries for more.
  for (const auto& block : in) {
    for (std::size_t s = 0; s < stream_count; ++s) use(block, {}, nth_stream(s));
    ASSERT_EQ(uses_of(block).all.size(), stream_count);
  }
  round(20'000);  // lets everything else grow

  const auto before = runtime().statistics();
  const auto held_before = held();
  const auto taken_before = taken();
  const auto heap_before = heap_in_use();
  round(launches());
  const auto heap_after = heap_in_use();
  const auto after = runtime().statistics();
  EXPECT_EQ(after.blocks, before.blocks);
  EXPECT_EQ(after.bytes_outstanding, before.bytes_outstanding);
  EXPECT_EQ(after.references, before.references);
  EXPECT_EQ(after.leases, 0u);
  EXPECT_EQ(after.streams, before.streams);
  EXPECT_EQ(after.releases_pending, 0u);
  EXPECT_EQ(after.points, before.points);
  EXPECT_EQ(after.events, before.events);
  EXPECT_EQ(held().bytes.current, held_before.bytes.current);
  EXPECT_EQ(held().allocations.current, held_before.allocations.current);
  EXPECT_EQ(taken().bytes.current, taken_before.bytes.current);
  EXPECT_EQ(taken().allocations.current, taken_before.allocations.current);
  // A leak on the heap would take at least 32 bytes for each of a million launches.
  constexpr std::size_t a_little = std::size_t{4} << 20;
  if (!under_compute_sanitizer()) {
    EXPECT_LE(heap_after, heap_before + a_little);
  }
}

// Many results at once, which streams other than the writing one read. Memory returns to the pool
// while other streams use it, and the newest block of each stream is nearly always in use.
TEST_P(growth_on, results_read_on_other_streams_take_no_more_than_is_in_use) {
  SLUICE_SKIP_UNDER_COMPUTE_SANITIZER(
      "for its sake no completed point counts, so memory that another stream has read is kept");
  auto random = make_generator();
  for (const std::size_t outstanding : {100, 400}) {
    std::deque<std::pair<stream_ref, timeline_point>> reads;
    const auto round = [&](int pairs) {
      for (int i = 0; i < pairs; ++i) {
        if (reads.size() == outstanding) {
          const auto [stream, oldest] = reads.front();
          detail::timeline::of(stream)->wait_until(oldest.ticket);
          reads.pop_front();
        }
        const auto& writer = nth_stream(random() % stream_count);
        const auto& reader = nth_stream(random() % stream_count);
        const auto result = runtime().allocate<std::uint32_t>(1024, writer, "result");
        use({}, result, writer);
        reads.emplace_back(reader, use(result, {}, reader));
      }
    };
    // The result being made is in use, too. A search is limited, so it may miss a few blocks that
    // are no longer in use.
    const auto most = outstanding + outstanding / 8;
    const auto pairs = launches() / 20;
    round(pairs);
    EXPECT_LE(taken().allocations.current, most) << pairs << " pairs";
    round(2 * pairs);
    EXPECT_LE(taken().allocations.current, most) << 3 * pairs << " pairs";
    rest();
  }
}

TEST_P(growth_on, streams_that_come_and_go_leave_nothing_but_their_number) {
  SLUICE_SKIP_UNDER_COMPUTE_SANITIZER(
      "for its sake no completed point counts, and the events of a stream go by that");
  const int many = host::thread_sanitizer_on ? 500 : 10'000;
  const auto shared = runtime().allocate<std::uint32_t>(256, nth_stream(0), "shared");
  use({}, shared, nth_stream(0));
  const auto churn = [&](int streams) {
    for (int i = 0; i < streams; ++i) {
      const auto passing = runtime().create_stream();
      const auto out = runtime().allocate<std::uint32_t>(64, passing, "result");
      use(shared, out, passing);
      use(out, {}, nth_stream(static_cast<std::size_t>(i)));
      use({}, shared, nth_stream(static_cast<std::size_t>(i)));  // waits for the temporary stream
      if (i % 64 == 63) rest();
    }
    rest();
    // Also the last tickets of the temporary streams; each call checks only a few streams.
    detail::runtime_core::of(runtime())->for_each_timeline(
        [](auto& t) { t.wait_until(t.newest().ticket); });
    for (int i = 0; i < 100; ++i) runtime().reap_pending();
  };
  churn(many / 10);
  const auto before = runtime().statistics();
  // Twice, and the smaller result counts, because a driver may allocate memory once for itself.
  auto grown = std::numeric_limits<std::ptrdiff_t>::max();
  for (int round = 0; round < 2; ++round) {
    const auto heap_before = static_cast<std::ptrdiff_t>(heap_in_use());
    churn(many / 2);
    grown =
        std::min(grown, (static_cast<std::ptrdiff_t>(heap_in_use()) - heap_before) / (many / 2));
  }
  const auto after = runtime().statistics();
  EXPECT_EQ(after.streams, before.streams);
  EXPECT_EQ(after.blocks, before.blocks);
  EXPECT_LE(after.points, before.points + stream_count);
  EXPECT_EQ(after.events, before.events) << "the events of a stream are gone with it";
  // The record of a stream stays, because its id is never reused. Each of the test's streams also
  // keeps a word for each other stream.
  RecordProperty("bytes_for_each_stream", std::to_string(grown));
  EXPECT_LE(grown, 1024) << "bytes for each stream that has gone";
}

}  // namespace
}  // namespace sluice::test
