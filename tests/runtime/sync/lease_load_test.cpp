// SPDX-License-Identifier: Apache-2.0
// Many concurrent launches: they do not deadlock, they exclude each other, and only preflight takes
// leases.
#include "runtime/sync/lease_holder.hpp"
#include "tests/runtime/sync/lease_test.hpp"
#include "tests/support/collected_reports.hpp"
#include "tests/support/gate.hpp"
#include "tests/support/seed.hpp"
#include "tests/support/small_launches.hpp"

#include <sluice/runtime/host_task.hpp>

#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <random>
#include <thread>
#include <utility>
#include <vector>

namespace sluice::test {
namespace {

TEST_P(leases_on, crossed_orders_do_not_deadlock) {
  const auto a = fresh();
  const auto b = fresh();
  const auto run = [&](const gpu_ref<float>& first, const gpu_ref<float>& second) {
    const auto stream = runtime().create_stream();
    for (int i = 0; i < 500; ++i) {
      auto recorder = launch_recorder::strict(stream);
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

// Each recorder takes its lease in address order, and still the threads would wait for each other.
TEST_P(leases_on, threads_that_hold_and_want_crosswise_are_refused) {
  const auto a = fresh();
  const auto b = fresh();
  std::atomic<int> holding{0};
  std::atomic<int> refused{0};
  const auto run = [&](const gpu_ref<float>& held, const gpu_ref<float>& wanted) {
    const auto stream = runtime().create_stream();
    auto first = begin_write(held, stream);
    holding.fetch_add(1);
    await([&] { return holding.load() >= 2; });
    auto second = launch_recorder::strict(stream);
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

// Neither address order nor a queue for each block would prevent this deadlock.
TEST_P(leases_on, writes_and_reads_of_two_blocks_crosswise_do_not_deadlock) {
  const auto a = fresh();
  const auto b = fresh();
  const auto run = [&](const gpu_ref<float>& written, const gpu_ref<float>& read) {
    const auto stream = runtime().create_stream();
    for (int i = 0; i < 500; ++i) {
      auto recorder = launch_recorder::strict(stream);
      recorder.write(written).read(read);
      recorder.preflight();
      std::this_thread::yield();
      (void)recorder.commit();
    }
  };
  std::vector<std::thread> threads;
  for (int i = 0; i < 2; ++i) {
    threads.emplace_back([&] { run(a, b); });
    threads.emplace_back([&] { run(b, a); });
  }
  for (auto& thread : threads) thread.join();
  EXPECT_EQ(runtime().statistics().leases, 0u);
}

// Random sets of blocks from several threads: between preflight and commit, each launch holds the
// leases of its blocks.
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
    const auto stream = runtime().create_stream();
    for (int round = 0; round < rounds; ++round) {
      std::array<int, blocks> access{};
      auto recorder = launch_recorder::strict(stream);
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

// All operations that take leases, in random order, on blocks that are freed concurrently. Each
// launch either succeeds with all of its leases, or is refused.
TEST_P(leases_on, withstand_everything_at_a_time) {
  constexpr std::size_t blocks = 5;
  constexpr int threads = 4;
  constexpr int rounds = 250;
  struct shared_block {
    gpu_ref<float> ref;
    std::atomic<int> readers{0};
    std::atomic<int> writers{0};
  };
  std::mutex mutex;
  std::array<std::shared_ptr<shared_block>, blocks> all;
  const auto renew = [&](std::size_t i) {
    auto block = std::make_shared<shared_block>();
    block->ref = fresh();
    const std::lock_guard lock(mutex);
    return std::exchange(all[i], std::move(block));
  };
  for (std::size_t i = 0; i < blocks; ++i) (void)renew(i);
  std::atomic<int> violations{0};
  std::atomic<int> unexpected{0};

  const auto run = [&](std::uint64_t seed) {
    std::mt19937_64 draw(seed);
    const auto stream = runtime().create_stream();
    for (int round = 0; round < rounds; ++round) {
      std::array<std::shared_ptr<shared_block>, blocks> known;
      {
        const std::lock_guard lock(mutex);
        known = all;
      }
      std::array<int, blocks> access{};
      auto recorder = launch_recorder::strict(stream);
      for (std::size_t i = 0; i < blocks; ++i) {
        access[i] = static_cast<int>(draw() % 4);
        if (access[i] == 1) recorder.read(known[i]->ref);
        if (access[i] == 2) recorder.write(known[i]->ref);
      }
      try {
        if (draw() % 8 != 0) {
          recorder.preflight();
        } else if (!recorder.try_preflight()) {
          recorder.cancel();
          continue;
        }
      } catch (const error& e) {
        if (e.code() != errc::stale_ref) unexpected.fetch_add(1);
        recorder.cancel();
        continue;
      }
      const auto count = [&](int change) {
        for (std::size_t i = 0; i < blocks; ++i) {
          if (access[i] == 1) known[i]->readers.fetch_add(change);
          if (access[i] == 2) known[i]->writers.fetch_add(change);
          if (change < 0 || access[i] == 0) continue;
          const auto writers = known[i]->writers.load();
          if (access[i] == 1 && writers != 0) violations.fetch_add(1);
          if (access[i] == 2 && (writers != 1 || known[i]->readers.load() != 0)) {
            violations.fetch_add(1);
          }
        }
      };
      count(1);
      if (draw() % 4 == 0) {
        const auto other = draw() % blocks;
        auto nested = launch_recorder::strict(stream);
        nested.read(known[other]->ref);
        try {
          nested.preflight();
          if (access[other] == 2) violations.fetch_add(1);
          (void)nested.commit();
        } catch (const error& e) {
          if (e.code() != errc::stale_ref && e.code() != errc::stream_misuse) {
            unexpected.fetch_add(1);
          }
          nested.cancel();
        }
      }
      if (draw() % 32 == 0) {
        const auto freed = renew(draw() % blocks);
        runtime().deallocate(freed->ref.block());
      }
      std::this_thread::yield();
      count(-1);
      if (draw() % 16 == 0) {
        recorder.cancel();
      } else if (draw() % 16 == 0) {
        std::thread([&] { (void)recorder.commit(); }).join();
      } else {
        (void)recorder.commit();
      }
    }
    if (detail::lease_holder::of_this_thread().holds_any()) unexpected.fetch_add(1);
  };
  ::testing::internal::CaptureStderr();  // recorders destroyed after a refusal report it
  auto generator = make_generator();
  std::vector<std::thread> running;
  for (int i = 0; i < threads; ++i) running.emplace_back(run, generator());
  for (auto& thread : running) thread.join();
  (void)::testing::internal::GetCapturedStderr();
  EXPECT_EQ(violations.load(), 0);
  EXPECT_EQ(unexpected.load(), 0);
  EXPECT_EQ(runtime().statistics().leases, 0u);
}

// Streams, reclamation, destructors and frees never take a lease, so they never wait for one.
TEST_P(leases_on, are_taken_in_preflight_only) {
  constexpr int threads = 3;
  constexpr int rounds = 200;
  device_runtime tracked(open_device(GetParam()),
                         {.resource = make_direct_resource({.tracked = true})});
  static thread_local bool in_preflight;
  std::atomic<int> taken{0};
  std::atomic<int> elsewhere{0};
  detail::runtime_core::of(tracked)->at_each_step([&](detail::launch_step step) {
    if (step != detail::launch_step::leasing && step != detail::launch_step::blocked) return;
    (in_preflight ? taken : elsewhere).fetch_add(1);
  });
  const auto owner = tracked.create_stream();
  auto shared = tracked.allocate<float>(16, owner, "shared");

  const auto run = [&](std::uint64_t seed) {
    std::mt19937_64 draw(seed);
    const auto stream = tracked.create_stream();
    for (int round = 0; round < rounds; ++round) {
      auto private_block = tracked.allocate<float>(16, stream, "own");
      auto recorder = launch_recorder::strict(stream);
      recorder.read(shared).write(private_block);
      in_preflight = true;
      recorder.preflight();
      in_preflight = false;
      switch (draw() % 4) {
        case 0:
          tracked.deallocate(private_block.block());  // the record is released with the lease
          break;
        case 1:
          private_block = {};
          break;
        case 2:
          if (on_host()) {
            // The stream's thread may drop the last reference and destroy a recorder.
            auto other = std::make_shared<launch_recorder>(launch_recorder::strict(stream));
            other->read(private_block);
            submit_host_task(stream, [kept = private_block, other] { (void)kept; });
          }
          break;
        default:
          recorder.cancel();
          continue;
      }
      if (draw() % 2 == 0) (void)recorder.commit();
    }
  };
  const collected_reports reports;  // recorders destroyed without commit report it
  auto generator = make_generator();
  std::vector<std::thread> running;
  for (int i = 0; i < threads; ++i) running.emplace_back(run, generator());
  for (auto& thread : running) thread.join();
  shared = {};
  owner.synchronize();
  (void)tracked.shut_down();
  EXPECT_GE(taken.load(), 2 * threads * rounds);
  EXPECT_EQ(elsewhere.load(), 0);
  EXPECT_EQ(tracked.statistics().leases, 0u);
}

}  // namespace
}  // namespace sluice::test
