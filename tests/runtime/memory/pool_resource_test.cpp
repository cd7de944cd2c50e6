// SPDX-License-Identifier: Apache-2.0
// The guarantees of the pool beyond the contract of every resource.
#include "runtime/host/annotations.hpp"
#include "tests/support/compute_sanitizer.hpp"
#include "tests/support/devices.hpp"
#include "tests/support/expect_error.hpp"
#include "tests/support/gate.hpp"
#include "tests/support/seed.hpp"
#include "tests/support/small_launches.hpp"
#include "tests/support/use_state.hpp"

#include <sluice/runtime/host_device.hpp>
#include <sluice/runtime/host_task.hpp>
#include <sluice/runtime/memory_adaptors.hpp>

#include <gtest/gtest.h>

#include <cstdint>
#include <memory>
#include <random>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>
#include <vector>

namespace sluice::test {
namespace {

using words = gpu_ref<std::uint32_t>;

class pool_on : public named_device_test {
 protected:
  void SetUp() override {
    named_device_test::SetUp();
    if (IsSkipped()) return;
    open({});
  }
  void open(pool_options options) { open(open_device(GetParam()), options); }
  void open(std::shared_ptr<device> device, pool_options options) {
    close();
    upstream_ = std::make_shared<memory_statistics>();
    faults_ = std::make_shared<fault_countdown>();
    runtime_ = std::make_unique<device_runtime>(
        std::move(device),
        runtime_options{.resource = make_pool_resource(
                            make_statistics_resource(
                                make_failing_resource(make_async_resource(), faults_), upstream_),
                            options)});
    stream_ = runtime_->create_stream();
    other_ = runtime_->create_stream();
  }
  void close() {
    stream_ = {};
    other_ = {};
    runtime_.reset();
    if (upstream_) {
      EXPECT_EQ(upstream_->counters().bytes.current, 0u) << "the pool kept memory";
    }
  }
  void TearDown() override { close(); }

  [[nodiscard]] device_runtime& runtime() const { return *runtime_; }
  [[nodiscard]] stream_ref stream() const { return stream_; }
  [[nodiscard]] stream_ref other() const { return other_; }
  /// The number of allocations that reached the resource below the pool.
  [[nodiscard]] std::size_t asked_for() const { return upstream_->counters().allocations.total; }
  [[nodiscard]] std::size_t given_back() const {
    const auto counted = upstream_->counters().allocations;
    return counted.total - counted.current;
  }
  [[nodiscard]] std::size_t held_bytes() const { return upstream_->counters().bytes.current; }
  /// Makes the resource below fail from now on, or ends that.
  void refuse(bool refuses) { faults_->fail_nth(refuses ? 1 : 0, 1'000'000); }
  [[nodiscard]] words allocate(stream_ref stream, std::size_t count = 1000) const {
    return runtime().allocate<std::uint32_t>(count, stream, "pooled");
  }
  /// Frees `count` blocks that `stream()` has written. `other()` reads them behind the gate, except
  /// `idle` blocks from `first` on.
  void keep_in_use(std::size_t count, std::size_t first, std::size_t idle, gate& closed) {
    std::vector<words> all;
    for (std::size_t i = 0; i < count; ++i) all.push_back(allocate(stream()));
    auto writing = launch_recorder::strict(stream());
    for (const auto& block : all) writing.write(block);
    writing.preflight();
    (void)writing.commit();
    closed.hold(other());
    auto reading = launch_recorder::strict(other());
    for (std::size_t i = 0; i < count; ++i) {
      if (i < first || i >= first + idle) reading.read(all[i]);
    }
    reading.preflight();
    (void)reading.commit();
    for (auto& block : all) block = {};
    ASSERT_EQ(asked_for(), count);
  }
  /// Queries until the runtime knows that `point` has completed.
  void wait_for(timeline_point point) const {
    await([&] {
      runtime().reap_pending();
      return detail::runtime_core::of(runtime())->find(point.stream)->completed(point.ticket);
    });
  }

 private:
  std::shared_ptr<memory_statistics> upstream_;
  std::shared_ptr<fault_countdown> faults_;
  std::unique_ptr<device_runtime> runtime_;
  sluice::stream stream_;
  sluice::stream other_;
};
// One thread returns all memory while others search the lists.
TEST_P(pool_on, is_trimmed_by_several_threads_at_a_time) {
  std::vector<std::thread> trimming;
  for (int t = 0; t < 4; ++t) {
    trimming.emplace_back([&, t] {
      const auto mine = runtime().create_stream();
      for (int i = 0; i < 30; ++i) {
        std::vector<gpu_ref<std::uint32_t>> blocks;
        for (std::size_t n = 0; n < 200; ++n) {
          blocks.push_back(runtime().allocate<std::uint32_t>(64 << (n % 7), mine.ref(), "trimmed"));
        }
        blocks.clear();
        if ((i + t) % 3 == 0) (void)runtime().trim_memory();
      }
    });
  }
  for (auto& t : trimming) t.join();
  EXPECT_EQ(runtime().bytes_outstanding(), 0U);
}

INSTANTIATE_TEST_SUITE_P(devices, pool_on, every_device(), parameter_name);

TEST_P(pool_on, makes_no_call_and_takes_no_ticket_in_a_steady_state) {
  const auto* first = allocate(stream()).data();
  const auto launches = runtime().statistics().launches;
  const auto events = runtime().statistics().events;
  for (int i = 0; i < 1000; ++i) EXPECT_EQ(allocate(stream(), 980 + i % 20).data(), first);
  EXPECT_EQ(asked_for(), 1u);
  EXPECT_EQ(given_back(), 0u);
  EXPECT_EQ(runtime().statistics().launches, launches);
  EXPECT_EQ(runtime().statistics().events, events);
}

// The pool does not query a stream of which more than half of the events are in use.
TEST_P(pool_on, does_not_ask_a_busy_stream_how_far_it_is) {
  const auto a = allocate(stream());
  const auto* const kept = allocate(stream()).data();
  const auto free_events = runtime().statistics().events;
  timeline_point last;
  for (int i = 0; i < 24; ++i) last = launch_fill(a, 1, stream());
  stream().device().synchronize(stream().native());
  ASSERT_EQ(runtime().statistics().events, free_events);
  const auto known = detail::timeline::of(stream())->watermark();
  ASSERT_LT(known, last.ticket) << "the stream has been asked already";
  for (int i = 0; i < 1000; ++i) EXPECT_EQ(allocate(stream()).data(), kept);
  EXPECT_EQ(detail::timeline::of(stream())->watermark(), known);
}

TEST_P(pool_on, hands_memory_out_again_behind_its_last_use_on_the_same_stream) {
  gate closed;
  closed.hold(stream());
  auto a = allocate(stream());
  const auto last = launch_fill(a, 1, stream());
  const auto* address = a.data();
  a = {};
  const auto b = allocate(stream());
  EXPECT_EQ(b.data(), address);
  EXPECT_EQ(asked_for(), 1u);
  // A use on another stream waits for it.
  (void)launch_fill(b, 2, other());
  EXPECT_TRUE(waits_for(other(), stream(), last.ticket));
  closed.open();
  EXPECT_EQ(download(b, other()), std::vector<std::uint32_t>(b.size(), 2));
}

TEST_P(pool_on, leaves_memory_alone_that_another_stream_still_uses) {
  SLUICE_SKIP_UNDER_COMPUTE_SANITIZER("for its sake no completed point stands for a wait");
  auto a = allocate(stream());
  (void)launch_fill(a, 1, stream());
  gate closed;
  closed.hold(other());
  const auto last_use = launch_fill(a, 2, other());
  const auto* address = a.data();
  a = {};
  auto b = allocate(stream());
  EXPECT_NE(b.data(), address);
  closed.open();
  wait_for(last_use);
  // Now every stream may use it without a wait.
  const auto third = runtime().create_stream();
  const auto c = allocate(third);
  EXPECT_EQ(c.data(), address);
  EXPECT_EQ(asked_for(), 2u);
  EXPECT_EQ(uses_of(c).last_write, timeline_point{});
}

TEST_P(pool_on, asks_the_device_before_it_asks_for_more) {
  SLUICE_SKIP_UNDER_COMPUTE_SANITIZER("for its sake no completed point stands for a wait");
  auto a = allocate(stream());
  const auto last_use = launch_fill(a, 1, other());
  const auto* address = a.data();
  a = {};
  // No query has found the progress of the streams since.
  other().device().synchronize(other().native());
  EXPECT_FALSE(other().completed(last_use.ticket));
  EXPECT_EQ(allocate(stream()).data(), address);
  EXPECT_EQ(asked_for(), 1u);
}

// The idle blocks are neither the newest nor the oldest of the freed ones.
TEST_P(pool_on, finds_what_nobody_uses_among_much_that_is_in_use) {
  SLUICE_SKIP_UNDER_COMPUTE_SANITIZER("for its sake no completed point stands for a wait");
  constexpr std::size_t most = 60;
  constexpr std::size_t idle = 4;
  const auto elsewhere = runtime().create_stream();
  gate closed;
  keep_in_use(most, most / 2, idle, closed);
  rest(stream());
  std::vector<words> again;
  for (std::size_t i = 0; i < idle; ++i) again.push_back(allocate(elsewhere));
  EXPECT_EQ(asked_for(), most);
  again.push_back(allocate(elsewhere));
  EXPECT_EQ(asked_for(), most + 1) << "the others are in use";
  closed.open();
}

// A block that only the asking stream still uses is equally good.
TEST_P(pool_on, finds_memory_that_only_the_asking_stream_uses) {
  constexpr std::size_t most = 60;
  gate before;
  before.hold(stream());
  gate closed;
  keep_in_use(most, most / 2, 1, closed);
  const auto found = allocate(stream());
  EXPECT_EQ(asked_for(), most);
  before.open();
  closed.open();
}

// A search looks at 256 blocks at least, and the next one continues where it ended.
TEST_P(pool_on, finds_what_nobody_uses_among_thousands_in_the_end) {
  SLUICE_SKIP_UNDER_COMPUTE_SANITIZER("for its sake no completed point stands for a wait");
  constexpr std::size_t many = 2048;
  const auto elsewhere = runtime().create_stream();
  gate closed;
  keep_in_use(many, many - 20, 1, closed);
  rest(stream());
  std::vector<words> again;
  const auto allocate_some = [&](std::size_t count) {
    for (std::size_t i = 0; i < count; ++i) again.push_back(allocate(elsewhere));
  };
  allocate_some(many / 256);
  EXPECT_EQ(asked_for(), many + many / 256 - 1);
  closed.open();
  rest(other());
  // None of these is in use any more.
  allocate_some(many - 1);
  EXPECT_EQ(asked_for(), many + many / 256 - 1);
}

TEST_P(pool_on, unfinished_memory_brings_its_uses_along) {
  open({.prefer_unfinished = true});
  auto a = allocate(stream());
  const auto* address = a.data();
  gate closed;
  closed.hold(other());
  const auto written = launch_fill(a, 1, other());
  const auto reader = runtime().create_stream();
  auto recorder = begin_read(a, reader);
  const auto read = recorder.commit();
  a = {};
  const auto launches = runtime().statistics().launches;
  auto b = allocate(stream());
  EXPECT_EQ(b.data(), address);
  EXPECT_EQ(runtime().statistics().launches, launches) << "nothing is queued at the allocation";
  // An unused block keeps its earlier uses when it is freed.
  b = {};
  b = allocate(stream());
  EXPECT_EQ(b.data(), address);
  // Even a read waits for both uses, because the block has not been written yet.
  const auto third = runtime().create_stream();
  auto early = begin_read(b, third);
  (void)early.commit();
  EXPECT_TRUE(waits_for(third.ref(), reader.ref(), read.ticket));
  EXPECT_TRUE(waits_for(third.ref(), other(), written.ticket));
  (void)launch_fill(b, 7, stream());
  EXPECT_TRUE(waits_for(stream(), reader.ref(), read.ticket));
  closed.open();
  EXPECT_EQ(download(b, stream()), std::vector<std::uint32_t>(b.size(), 7));
}

// With the negative control: without the wait, a late use of the previous block shows.
TEST_P(pool_on, only_the_inherited_wait_keeps_memory_whole) {
  SLUICE_SKIP_UNDER_COMPUTE_SANITIZER("it leaves a wait out, which that reports");
  for (const bool left_out : {false, true}) {
    if (left_out && host::thread_sanitizer_on) break;  // it would report the race
    open({.prefer_unfinished = true});
    detail::runtime_core::of(runtime())->leave_out(
        [left_out](detail::hazard kind) { return left_out && kind == detail::hazard::inherited; });
    auto a = allocate(stream());
    const auto* address = a.data();
    gate closed;
    closed.hold(other());
    const auto late = launch_fill(a, 1, other());
    a = {};
    const auto b = allocate(stream());
    ASSERT_EQ(b.data(), address);
    const auto early = launch_fill(b, 2, stream());
    if (left_out) wait_for(early);
    closed.open();
    wait_for(late);
    wait_for(early);
    EXPECT_EQ(download(b, stream()), std::vector<std::uint32_t>(b.size(), left_out ? 1U : 2U));
  }
}

TEST_P(pool_on, takes_unfinished_memory_where_there_is_no_other) {
  auto a = allocate(stream());
  gate closed;
  closed.hold(other());
  (void)launch_fill(a, 1, other());
  const auto* address = a.data();
  a = {};
  refuse(true);
  const auto b = allocate(stream());
  EXPECT_EQ(b.data(), address);
  EXPECT_TRUE(throws(errc::out_of_memory, "scripted", [&] { (void)allocate(stream()); }));
  closed.open();
}

TEST_P(pool_on, gives_back_what_it_keeps_when_memory_is_short_or_when_told) {
  (void)allocate(stream(), 1000);
  (void)allocate(other(), 50'000);
  stream().synchronize();
  other().synchronize();
  EXPECT_EQ(given_back(), 0u);
  refuse(true);
  // The pool has no block of this size, so it returns all memory and retries once.
  EXPECT_TRUE(throws(errc::out_of_memory, "scripted", [&] { (void)allocate(stream(), 7); }));
  EXPECT_EQ(given_back(), 2u);
  EXPECT_EQ(held_bytes(), 0u);
  refuse(false);
  (void)allocate(stream(), 1000);
  EXPECT_GE(runtime().trim_memory(), 4000u);
  EXPECT_EQ(given_back(), 3u);
  EXPECT_EQ(runtime().trim_memory(), 0u);
}

// Returning such memory would not help, and the pool could not reuse it.
TEST_P(pool_on, keeps_what_is_still_in_use_when_memory_is_short) {
  auto busy = allocate(stream(), 50'000);
  stream().synchronize();
  gate closed;
  closed.hold(other());
  (void)launch_fill(busy, 1, other());
  const auto* const address = busy.data();
  busy = {};
  refuse(true);
  EXPECT_TRUE(throws(errc::out_of_memory, "scripted", [&] { (void)allocate(stream(), 7); }));
  EXPECT_EQ(given_back(), 0u);
  EXPECT_EQ(allocate(other(), 50'000).data(), address);
  closed.open();
}

TEST_P(pool_on, keeps_no_more_than_it_may) {
  open({.max_kept = 10'000});
  std::vector<words> all;
  for (int i = 0; i < 5; ++i) all.push_back(allocate(stream(), 1024));
  all.clear();
  EXPECT_EQ(asked_for(), 5u);
  EXPECT_EQ(given_back(), 3u);
}

TEST_P(pool_on, wastes_at_most_an_eighth) {
  auto generator = make_generator();
  for (int i = 0; i < 200; ++i) {
    const std::size_t bytes = 2048 + generator() % 2'000'000;
    const auto before = held_bytes();
    const auto a = runtime().allocate_bytes(bytes, stream());
    if (held_bytes() == before) continue;
    EXPECT_LE(held_bytes() - before, bytes + bytes / 8 + 1);
  }
}

TEST_P(pool_on, serves_threads_at_a_time) {
  constexpr int threads = 4;
  std::vector<std::thread> all;
  for (int t = 0; t < threads; ++t) {
    all.emplace_back([&, seed = process_seed() + static_cast<std::uint64_t>(t)] {
      std::mt19937_64 generator(seed);
      const auto mine = runtime().create_stream();
      std::vector<std::pair<words, std::uint32_t>> living;
      for (int i = 0; i < 300; ++i) {
        if (living.size() > 8 || (!living.empty() && generator() % 3 == 0)) {
          const auto index = generator() % living.size();
          const auto& [ref, value] = living[index];
          if (generator() % 8 == 0) {
            EXPECT_EQ(download(ref, mine), std::vector<std::uint32_t>(ref.size(), value));
          }
          living[index] = living.back();
          living.pop_back();
        }
        const auto value = static_cast<std::uint32_t>(generator());
        const auto& block_stream = generator() % 4 == 0 ? other() : mine.ref();
        living.emplace_back(allocate(block_stream, 1 + generator() % 3000), value);
        (void)launch_fill(living.back().first, value, generator() % 4 == 0 ? stream() : mine.ref());
      }
      for (const auto& [ref, value] : living) {
        EXPECT_EQ(download(ref, mine), std::vector<std::uint32_t>(ref.size(), value));
      }
    });
  }
  for (auto& thread : all) thread.join();
  EXPECT_LT(asked_for(), std::size_t{threads} * 300);
  runtime().reap_pending();
  EXPECT_EQ(runtime().bytes_outstanding(), 0u);
}

TEST(pool, inherits_no_failure) {
  device_runtime runtime(open_host_device(),
                         {.resource = make_pool_resource(make_async_resource())});
  const auto stream = runtime.create_stream();
  auto a = runtime.allocate<std::uint32_t>(100, stream);
  const auto* address = a.data();
  gate closed;
  closed.hold(stream);
  auto recorder = begin_write(a, stream);
  submit_host_task(stream, [] { throw std::runtime_error("the launch fails"); });
  const auto failing = recorder.commit();
  a = {};
  const auto b = runtime.allocate<std::uint32_t>(100, stream);
  EXPECT_EQ(b.data(), address);
  auto next = begin_read(b, stream);
  const auto reading = next.commit();
  closed.open();
  detail::timeline::of(stream.ref())->wait_until(reading.ticket);
  EXPECT_TRUE(detail::timeline::of(stream.ref())->failure_of(failing.ticket));
  EXPECT_FALSE(detail::timeline::of(stream.ref())->failure_of(reading.ticket));
}

TEST(pool, refuses_an_upstream_that_cannot_serve_it) {
  EXPECT_TRUE(throws(errc::invalid_argument, "upstream must not be null",
                     [] { (void)make_pool_resource(nullptr); }));
  EXPECT_TRUE(throws(errc::invalid_argument, "does not track",
                     [] { (void)make_pool_resource(make_direct_resource()); }));
}

}  // namespace
}  // namespace sluice::test
