// SPDX-License-Identifier: Apache-2.0
// A launch whose leases other threads keep taking succeeds after a bounded number of their
// launches.
#include "runtime/sync/turnstile.hpp"
#include "tests/runtime/sync/lease_test.hpp"
#include "tests/support/copy_side.hpp"
#include "tests/support/expect_error.hpp"
#include "tests/support/followed_launch.hpp"
#include "tests/support/gate.hpp"
#include "tests/support/launching_thread.hpp"
#include "tests/support/seed.hpp"
#include "tests/support/small_launches.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <functional>
#include <memory>
#include <optional>
#include <random>
#include <thread>
#include <utility>
#include <vector>

namespace sluice::test {
namespace {

/// Launches that obstruct the launch under test: one of several blocks is always leased.
///
/// The launch under test stops each time before it waits for a lease. The next runner then takes
/// its block, and only then the runner of the awaited block commits. An attempt to take all leases
/// at once therefore always fails.
class relay {
 public:
  using note = std::function<void(launch_recorder&)>;
  /// A launch that keeps one block leased.
  struct runner {
    stream_ref stream;
    note uses;
  };

  explicit relay(std::vector<runner> runners) : runners_(std::move(runners)) {
    running_.resize(runners_.size());
    start(0);
    running_[0]->await_through();
  }
  relay(const relay&) = delete;
  relay& operator=(const relay&) = delete;
  ~relay() { finish(); }

  /// Runs `launch` on a thread of its own and obstructs it. Returns the number of obstructing
  /// launches.
  ///
  /// Ends when the launch has passed preflight, after `most` obstructing launches, or, if
  /// `until_in_turnstile` is true, when the launch waits in the turnstile.
  template <class Launch>
  int hinder(Launch launch, int most, bool until_in_turnstile = false) {
    steps_.stop_when_blocked(true);
    hindered_ = std::thread([this, launch] {
      const followed_launch::here here(steps_);
      launch();
      through_.store(true);
    });
    for (int obstructions = 0;; ++obstructions) {
      await([this] { return steps_.stopped() || through_.load(); });
      if (through_.load() || obstructions == most) return obstructions;
      if (until_in_turnstile && steps_.starved()) return obstructions;
      const auto next = (runner_index_ + 1) % runners_.size();
      if (running_[next] == nullptr) start(next);
      // If the launch under test keeps the lease of that block, the runner waits for it.
      await([&] { return running_[next]->through() || running_[next]->blocked(); });
      end(runner_index_);
      runner_index_ = next;
      steps_.go_on();
    }
  }

  [[nodiscard]] bool through() const { return through_.load(); }
  [[nodiscard]] bool in_turnstile() const { return steps_.starved(); }
  /// The index of the runner whose block the launch waits for.
  [[nodiscard]] std::size_t runner_index() const { return runner_index_; }
  /// Lets all launches finish.
  void finish() {
    steps_.stop_when_blocked(false);
    if (steps_.stopped()) steps_.go_on();
    for (auto& one : running_) {
      if (one != nullptr) one->commit();
    }
    if (hindered_.joinable()) hindered_.join();
    for (auto& one : running_) one.reset();
  }

 private:
  void start(std::size_t i) {
    running_[i] = std::make_unique<launching_thread>(runners_[i].stream, runners_[i].uses);
  }
  void end(std::size_t i) {
    running_[i]->commit();
    running_[i]->join();
    running_[i].reset();
  }

  std::vector<runner> runners_;
  std::vector<std::unique_ptr<launching_thread>> running_;
  std::size_t runner_index_ = 0;
  followed_launch steps_;
  std::atomic<bool> through_{false};
  std::thread hindered_;
};

/// More obstructing launches than the turnstile permits.
constexpr int too_many = 200;

/// Blocks that the runners of a relay read, one each, in the order in which leases are taken.
class read_blocks {
 public:
  read_blocks(device_runtime& runtime, stream_ref stream, std::size_t count) {
    for (std::size_t i = 0; i < count; ++i) {
      refs_.push_back(runtime.allocate<float>(16, stream, "read"));
      streams_.push_back(runtime.create_stream());
    }
    std::sort(refs_.begin(), refs_.end(), [](const auto& a, const auto& b) {
      return detail::block_record::of(a.block()) < detail::block_record::of(b.block());
    });
  }
  [[nodiscard]] std::vector<relay::runner> runners() const {
    std::vector<relay::runner> all;
    for (std::size_t i = 0; i < refs_.size(); ++i) {
      all.push_back({streams_[i], [block = refs_[i].block()](launch_recorder& r) {
                       r.use(block, access_kind::read, true);
                     }});
    }
    return all;
  }
  /// Makes a launch that writes all blocks.
  void write(stream_ref stream) const {
    auto recorder = launch_recorder::strict(stream);
    for (const auto& ref : refs_) recorder.write(ref);
    recorder.preflight();
    (void)recorder.commit();
  }
  [[nodiscard]] const gpu_ref<float>& operator[](std::size_t i) const { return refs_[i]; }

 private:
  std::vector<gpu_ref<float>> refs_;
  std::vector<sluice::stream> streams_;
};

TEST_P(leases_on, a_launch_that_writes_blocks_which_others_read_is_made) {
  const read_blocks blocks(runtime(), stream(), 4);
  relay others(blocks.runners());
  const auto obstructions = others.hinder([&] { blocks.write(stream()); }, too_many);
  EXPECT_LT(obstructions, too_many);
  EXPECT_TRUE(others.through());
  others.finish();
  EXPECT_EQ(runtime().statistics().leases, 0u);
}

TEST_P(leases_on, a_launch_in_the_turnstile_gets_stale_ref_when_its_block_dies) {
  const read_blocks blocks(runtime(), stream(), 3);
  relay others(blocks.runners());
  std::optional<error> failure;
  (void)others.hinder([&] { failure = error_of([&] { blocks.write(stream()); }); }, too_many, true);
  ASSERT_TRUE(others.in_turnstile());
  const auto dying = others.runner_index();
  runtime().deallocate(blocks[dying].block());
  others.finish();
  ASSERT_TRUE(failure.has_value());
  EXPECT_EQ(failure->code(), errc::stale_ref);
  EXPECT_EQ(runtime().statistics().leases, 0u);
  // No block stays reserved, and neither does a new block in the same record.
  const auto next = fresh();
  auto recorder = launch_recorder::strict(stream());
  recorder.write(next).read(blocks[(dying + 1) % 3]).write(blocks[(dying + 2) % 3]);
  EXPECT_TRUE(recorder.try_preflight());
  (void)recorder.commit();
}

TEST_P(leases_on, a_reserved_block_is_kept_from_threads_that_hold_nothing_only) {
  const read_blocks blocks(runtime(), stream(), 2);
  const auto unrelated = fresh();
  relay others(blocks.runners());
  (void)others.hinder([&] { blocks.write(stream()); }, too_many, true);
  ASSERT_TRUE(others.in_turnstile());
  const auto& reserved = blocks[others.runner_index()];
  const auto stream = runtime().create_stream();
  {
    auto recorder = launch_recorder::strict(stream);
    recorder.read(reserved);
    EXPECT_FALSE(recorder.try_preflight());
    recorder.cancel();
  }
  // Launches on other blocks are not affected.
  auto held = begin_write(unrelated, stream);
  {
    auto recorder = launch_recorder::strict(stream);
    recorder.read(reserved);
    EXPECT_FALSE(recorder.try_preflight()) << "what can be cancelled makes room";
    EXPECT_NO_THROW(recorder.preflight()) << "a thread that holds a lease may not wait";
    (void)recorder.commit();
  }
  (void)held.commit();
  EXPECT_FALSE(others.through());
  others.finish();
  EXPECT_TRUE(others.through());
  EXPECT_EQ(runtime().statistics().leases, 0u);
}

TEST_P(leases_on, a_runtime_ends_while_a_launch_waits_in_the_turnstile) {
  auto ending = std::make_unique<device_runtime>(open_device(GetParam()));
  followed_launch::allow(*ending);
  const auto stream = ending->create_stream();
  const read_blocks blocks(*ending, stream, 2);
  relay others(blocks.runners());
  std::optional<error> failure;
  (void)others.hinder([&] { failure = error_of([&] { blocks.write(stream); }); }, too_many, true);
  ASSERT_TRUE(others.in_turnstile());
  std::thread ends([&] { ending.reset(); });
  await([&] { return blocks[others.runner_index()].stale(); });
  others.finish();
  ends.join();
  ASSERT_TRUE(failure.has_value());
  EXPECT_EQ(failure->code(), errc::stale_ref);
}

// At any time one writer holds the block and another one waits for it.
TEST_P(leases_on, a_reader_is_made_between_two_writers) {
  constexpr int most = 2000;
  const auto a = fresh();
  const sluice::stream streams[] = {runtime().create_stream(), runtime().create_stream()};
  const auto write = [&a](launch_recorder& r) {
    r.write(a);
  };
  auto holding = std::make_unique<launching_thread>(streams[0], write);
  holding->await_through();
  auto waiting = std::make_unique<launching_thread>(streams[1], write);
  waiting->await_blocked();
  launching_thread reader(runtime(), [&a](launch_recorder& r) { r.read(a); });
  reader.await_blocked();
  int turns = 0;
  for (; turns < most && !reader.through(); ++turns) {
    holding->commit();
    (void)holding->join();
    await([&] { return waiting->through() || reader.through(); });
    if (reader.through()) break;
    holding = std::exchange(
        waiting, std::make_unique<launching_thread>(streams[turns % 2 == 0 ? 0 : 1], write));
    waiting->await_blocked();
  }
  EXPECT_LT(turns, most);
  EXPECT_TRUE(reader.through());
  holding->commit();
  reader.commit();
  waiting->commit();
  (void)waiting->join();
  (void)reader.join();
}

TEST(turnstile, is_passed_by_one_thread_at_a_time) {
  std::atomic<int> inside{0};
  std::atomic<int> together{0};
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([&] {
      for (int round = 0; round < 200; ++round) {
        const detail::turnstile_passage passage(detail::lease_holder::of_this_thread());
        if (inside.fetch_add(1) != 0) together.fetch_add(1);
        std::this_thread::yield();
        inside.fetch_sub(1);
      }
    });
  }
  for (auto& thread : threads) thread.join();
  EXPECT_EQ(together.load(), 0);
}

TEST(turnstile, refuses_a_thread_that_holds_a_lease) {
  auto& here = detail::lease_holder::of_this_thread();
  here.add(1);
  EXPECT_TRUE(throws(errc::stream_misuse, "holds leases",
                     [&] { const detail::turnstile_passage passage(here); }));
  // Another thread may return the lease.
  std::thread([&] { here.remove(1); }).join();
  EXPECT_FALSE(here.holds_any());
  { const detail::turnstile_passage passage(here); }
  EXPECT_FALSE(here.in_turnstile());
}

// A copy takes leases of both runtimes, and a writer always holds one of the blocks.
TEST(copies_between_busy_runtimes, are_made) {
  side source_side("pretended:0");
  side target_side("pretended:1");
  followed_launch::allow(*source_side.runtime);
  followed_launch::allow(*target_side.runtime);
  const auto source = source_side.holding(values(64, 1));
  const auto target = target_side.holding(values(64, 2));
  const auto source_stream = source_side.runtime->create_stream();
  const auto target_stream = target_side.runtime->create_stream();
  relay others({{source_side.other,
                 [&](launch_recorder& r) {
                   r.write(source);
                 }},
                {target_side.other, [&](launch_recorder& r) {
                   r.write(target);
                 }}});
  const auto obstructions = others.hinder(
      [&] { (void)enqueue_copy(target, target_stream, source, source_stream); }, too_many);
  EXPECT_LT(obstructions, too_many);
  EXPECT_TRUE(others.through());
  others.finish();
  EXPECT_EQ(source_side.runtime->statistics().leases, 0u);
  EXPECT_EQ(target_side.runtime->statistics().leases, 0u);
}

TEST(copies_between_busy_runtimes, both_ways_do_not_deadlock) {
  constexpr int rounds = 100;
  side one("pretended:0");
  side two("pretended:1");
  const auto a = one.holding(values(64, 1));
  const auto b = two.holding(values(64, 2));
  std::atomic<int> copying{2};
  const auto copy = [&](const side& target_side, const words& target, const side& source_side,
                        const words& source) {
    const auto target_stream = target_side.runtime->create_stream();
    const auto source_stream = source_side.runtime->create_stream();
    for (int i = 0; i < rounds; ++i)
      (void)enqueue_copy(target, target_stream, source, source_stream);
    copying.fetch_sub(1);
  };
  const auto disturb = [&](const side& owner, const words& block, std::uint64_t seed) {
    std::mt19937_64 draw(seed);
    const auto stream = owner.runtime->create_stream();
    while (copying.load() != 0) {
      auto recorder = launch_recorder::strict(stream);
      draw() % 4 == 0 ? recorder.write(block) : recorder.read(block);
      recorder.preflight();
      std::this_thread::yield();
      (void)recorder.commit();
    }
  };
  auto generator = make_generator();
  std::vector<std::thread> threads;
  threads.emplace_back([&] { copy(two, b, one, a); });
  threads.emplace_back([&] { copy(one, a, two, b); });
  threads.emplace_back([&, seed = generator()] { disturb(one, a, seed); });
  threads.emplace_back([&, seed = generator()] { disturb(two, b, seed); });
  for (auto& thread : threads) thread.join();
  EXPECT_EQ(one.runtime->statistics().leases, 0u);
  EXPECT_EQ(two.runtime->statistics().leases, 0u);
}

}  // namespace
}  // namespace sluice::test
