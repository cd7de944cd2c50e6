// SPDX-License-Identifier: Apache-2.0
// The pool of threads that help with large tasks, with threads of the test in place of streams, and
// the pool of a host device. Order is forced by gates: a broken pool hangs or counts wrong.
#include "runtime/host/host_threads.hpp"

#include "runtime/host/annotations.hpp"
#include "tests/support/expect_error.hpp"
#include "tests/support/failing_allocations.hpp"
#include "tests/support/gate.hpp"
#include "tests/support/seed.hpp"

#include <sluice/runtime/device_runtime.hpp>
#include <sluice/runtime/host_device.hpp>
#include <sluice/runtime/host_task.hpp>

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <random>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

namespace sluice::test {
namespace {

using host::host_threads;
using host::work_chunks;

/// Runs `function(i)` for each chunk, as a stream with a task does.
template <class Function>
void run(host_threads& pool, std::int64_t chunks, const Function& function) {
  struct scope {
    host_threads& threads;
    explicit scope(host_threads& p) : threads(p) { threads.enter(); }
    scope(const scope&) = delete;
    scope& operator=(const scope&) = delete;
    ~scope() { threads.leave(); }
  } const computing(pool);
  pool.run(
      chunks,
      [](const void* context, std::int64_t chunk) {
        (*static_cast<const Function*>(context))(chunk);
      },
      &function);
}

TEST(host_threads_test, runs_each_chunk_once) {
  for (const int threads : {1, 2, 3, 8}) {
    host_threads pool(threads);
    for (const std::int64_t chunks : {0, 1, 2, 3, 64, 1000}) {
      std::vector<std::atomic<int>> runs(static_cast<std::size_t>(chunks));
      run(pool, chunks, [&](std::int64_t i) { ++runs[static_cast<std::size_t>(i)]; });
      EXPECT_TRUE(std::ranges::all_of(runs, [](const auto& count) { return count == 1; }))
          << threads << " threads, " << chunks << " chunks";
    }
  }
}

// Each chunk waits until all have begun, so each needs a thread of its own.
TEST(host_threads_test, computes_with_all_threads) {
  constexpr int threads = 4;
  host_threads pool(threads);
  for (int round = 0; round < 20; ++round) {
    std::atomic<int> begun{0};
    run(pool, threads, [&](std::int64_t) {
      ++begun;
      await([&] { return begun == threads; });
    });
    EXPECT_EQ(begun, threads);
  }
}

TEST(host_threads_test, orders_the_chunks_between_what_the_caller_does_before_and_after) {
  host_threads pool(4);
  std::vector<std::int64_t> values(300);
  for (std::int64_t round = 0; round < 50; ++round) {
    std::ranges::fill(values, round);
    run(pool, 100, [&](std::int64_t i) {
      for (auto k = 3 * i; k < 3 * i + 3; ++k) values[static_cast<std::size_t>(k)] += k;
    });
    for (std::size_t k = 0; k < values.size(); ++k) {
      ASSERT_EQ(values[k], round + static_cast<std::int64_t>(k));
    }
  }
}

TEST(host_threads_test, serves_several_streams_at_once) {
  auto random = make_generator();
  host_threads pool(4);
  std::vector<std::thread> streams;
  std::atomic<std::int64_t> wrong{0};
  for (int s = 0; s < 4; ++s) {
    streams.emplace_back([&, seed = random()] {
      std::mt19937_64 numbers(seed);
      for (int round = 0; round < 200; ++round) {
        const auto chunks = static_cast<std::int64_t>(numbers() % 40);
        std::vector<int> runs(static_cast<std::size_t>(chunks));
        run(pool, chunks, [&](std::int64_t i) { ++runs[static_cast<std::size_t>(i)]; });
        wrong += std::ranges::count_if(runs, [](int count) { return count != 1; });
      }
    });
  }
  for (auto& stream : streams) stream.join();
  EXPECT_EQ(wrong, 0);
}

// Busy streams

TEST(host_threads_test, does_not_help_while_all_processors_are_busy) {
  host_threads pool(2);
  run(pool, 2, [](std::int64_t) {});  // starts the helper
  pool.enter();                       // another stream
  std::vector<std::thread::id> ran_on(100);
  run(pool, 100,
      [&](std::int64_t i) { ran_on[static_cast<std::size_t>(i)] = std::this_thread::get_id(); });
  pool.leave();
  EXPECT_EQ(std::ranges::count(ran_on, std::this_thread::get_id()), 100);
}

TEST(host_threads_test, leaves_after_a_chunk_if_another_stream_becomes_busy) {
  host_threads pool(2);
  const auto caller = std::this_thread::get_id();
  std::atomic<bool> helper_begun{false};
  std::atomic<bool> other_busy{false};
  std::atomic<int> by_helper{0};
  std::thread other([&] {
    await([&] { return helper_begun.load(); });
    pool.enter();
    other_busy = true;
  });
  run(pool, 100, [&](std::int64_t) {
    if (std::this_thread::get_id() == caller) return await([&] { return other_busy.load(); });
    ++by_helper;
    helper_begun = true;
    await([&] { return other_busy.load(); });
  });
  other.join();
  pool.leave();
  EXPECT_EQ(by_helper, 1);
}

TEST(host_threads_test, helps_once_another_stream_is_idle) {
  host_threads pool(2);
  const auto caller = std::this_thread::get_id();
  std::atomic<bool> helped{false};
  bool left = false;  // used by the caller only
  pool.enter();
  run(pool, 100, [&](std::int64_t) {
    if (std::this_thread::get_id() != caller) {
      helped = true;
      return;
    }
    if (!left) pool.leave();
    left = true;
    await([&] { return helped.load(); });
  });
  EXPECT_TRUE(helped);
}

// Failures

TEST(host_threads_test, throws_the_exception_of_a_chunk_after_all_have_ended) {
  for (const int threads : {1, 4}) {
    host_threads pool(threads);
    for (std::int64_t failing = 0; failing < 20; ++failing) {
      std::vector<std::atomic<int>> begun(20);
      std::atomic<int> inside{0};
      std::string message;
      try {
        run(pool, 20, [&](std::int64_t i) {
          ++inside;
          ++begun[static_cast<std::size_t>(i)];
          --inside;
          if (i == failing) throw std::runtime_error("chunk " + std::to_string(i));
        });
      } catch (const std::runtime_error& failure) {
        message = failure.what();
      }
      EXPECT_EQ(message, "chunk " + std::to_string(failing));
      EXPECT_EQ(inside, 0);
      EXPECT_TRUE(std::ranges::all_of(begun, [](const auto& count) { return count <= 1; }));
    }
    std::atomic<int> later{0};
    run(pool, 20, [&](std::int64_t) { ++later; });
    EXPECT_EQ(later, 20);
  }
}

TEST(host_threads_test, throws_the_exception_of_a_helper) {
  host_threads pool(2);
  const auto caller = std::this_thread::get_id();
  std::atomic<bool> helped{false};
  EXPECT_THROW(run(pool, 2,
                   [&](std::int64_t) {
                     if (std::this_thread::get_id() == caller) {
                       return await([&] { return helped.load(); });
                     }
                     helped = true;
                     throw std::runtime_error("helper");
                   }),
               std::runtime_error);
}

TEST(host_threads_test, works_with_the_threads_that_could_be_started) {
  for (std::uint64_t nth = 1; nth <= 6; ++nth) {
    host_threads pool(4);
    std::vector<std::atomic<int>> runs(100);
    fail_allocations_from(nth);
    run(pool, 100, [&](std::int64_t i) { ++runs[static_cast<std::size_t>(i)]; });
    fail_allocations_from(0);
    for (int round = 0; round < 2; ++round) {
      EXPECT_TRUE(std::ranges::all_of(runs, [&](const auto& count) { return count == round + 1; }));
      run(pool, 100, [&](std::int64_t i) { ++runs[static_cast<std::size_t>(i)]; });
    }
  }
}

TEST(host_threads_test, allocates_nothing_once_its_threads_have_started) {
  host_threads pool(3);
  run(pool, 2, [](std::int64_t) {});
  const auto before = allocations_made();
  std::atomic<int> runs{0};
  for (int round = 0; round < 10; ++round) run(pool, 50, [&](std::int64_t) { ++runs; });
  EXPECT_EQ(allocations_made(), before);
  EXPECT_EQ(runs, 500);
}

// Chunks

TEST(work_chunks_test, cover_all_items_once) {
  auto random = make_generator();
  for (int round = 0; round < 10'000; ++round) {
    const auto items = static_cast<std::int64_t>(random() % (1U << (random() % 30)));
    const auto multiple = static_cast<std::int64_t>(1 + random() % 70);
    const double nanoseconds = static_cast<double>(1 + random() % 1'000'000) / 10;
    const work_chunks chunks(items, nanoseconds, multiple);
    std::int64_t end = 0;
    for (std::int64_t i = 0; i < chunks.count(); ++i) {
      ASSERT_EQ(chunks[i].begin, end);
      ASSERT_GT(chunks[i].end, end);
      ASSERT_TRUE(chunks[i].end == items || chunks[i].end % multiple == 0);
      end = chunks[i].end;
    }
    ASSERT_EQ(end, items);
    ASSERT_LE(chunks.count(), work_chunks::max_chunks);
  }
}

TEST(work_chunks_test, leave_small_work_whole) {
  EXPECT_EQ(work_chunks(0, 1e9).count(), 0);
  EXPECT_EQ(work_chunks(1, 1e9).count(), 1);
  EXPECT_EQ(work_chunks(1000, 100).count(), 1);
  EXPECT_EQ(work_chunks(4000, 100).count(), 8);
  EXPECT_EQ(work_chunks(1'000'000'000, 1).count(), work_chunks::max_chunks);
}

// The pool of a device

TEST(host_device_threads, compute_the_chunks_of_tasks) {
  for (const int threads : {0, 1, 2, 8}) {
    device_runtime runtime(open_host_device({.threads = threads}));
    const auto stream = runtime.create_stream();
    std::vector<std::atomic<int>> runs(1000);
    for (int round = 0; round < 10; ++round) {
      submit_host_task(stream, [&] {
        host::parallel_for(1000, [&](std::int64_t i) { ++runs[static_cast<std::size_t>(i)]; });
      });
    }
    stream.synchronize();
    EXPECT_TRUE(std::ranges::all_of(runs, [](const auto& count) { return count == 10; }));
  }
}

TEST(host_device_threads, help_if_the_other_streams_wait) {
  if (host::thread_sanitizer_on) GTEST_SKIP() << "the device has no helpers";
  device_runtime runtime(open_host_device({.threads = 2}));
  const auto stream = runtime.create_stream();
  const auto waiting = runtime.create_stream();
  const auto x = runtime.allocate<int>(1, stream);
  std::atomic<int> begun{0};
  gate closed;
  closed.hold(stream);
  const int one = 1;
  {
    auto recorder = launch_recorder::strict(stream);
    recorder.write(x);
    recorder.preflight();
    submit_host_task(stream, [&] {
      host::parallel_for(2, [&](std::int64_t) {
        ++begun;
        await([&] { return begun == 2; });
      });
    });
    recorder.commit();
  }
  {
    auto recorder = launch_recorder::strict(waiting);
    recorder.write(x);
    recorder.preflight();
    runtime.device().fill(x.data(), &one, sizeof one, 1, waiting.ref().native());
    recorder.commit();
  }
  closed.open();
  waiting.synchronize();
  EXPECT_EQ(begun, 2);
}

TEST(host_device_threads, do_not_help_while_another_stream_computes) {
  device_runtime runtime(open_host_device({.threads = 2}));
  const auto stream = runtime.create_stream();
  const auto other = runtime.create_stream();
  gate closed;
  closed.hold(other);
  closed.wait_until_reached();
  std::vector<std::thread::id> ran_on(100);
  std::thread::id thread_of_stream;
  submit_host_task(stream, [&] {
    thread_of_stream = std::this_thread::get_id();
    host::parallel_for(100, [&](std::int64_t i) {
      ran_on[static_cast<std::size_t>(i)] = std::this_thread::get_id();
    });
  });
  stream.synchronize();
  EXPECT_EQ(std::ranges::count(ran_on, thread_of_stream), 100);
}

TEST(host_device_threads, pass_exceptions_to_the_task) {
  device_runtime runtime(open_host_device({.threads = 2}));
  const auto stream = runtime.create_stream();
  std::string message;
  submit_host_task(stream, [&] {
    try {
      host::parallel_for(10, [](std::int64_t i) {
        if (i == 7) throw std::runtime_error("seven");
      });
    } catch (const std::runtime_error& failure) {
      message = failure.what();
    }
  });
  stream.synchronize();
  EXPECT_EQ(message, "seven");
}

TEST(host_device_threads, end_with_a_lost_device) {
  device_runtime runtime(open_host_device({.threads = 2}));
  const auto stream = runtime.create_stream();
  std::atomic<int> runs{0};
  submit_host_task(stream, [&] {
    host::parallel_for(10, [&](std::int64_t i) {
      if (i == 0) runtime.device().lose(error(errc::device_lost, "by the test"));
      ++runs;
    });
  });
  await([&] { return runtime.device().quiescent(stream.ref().native()); });
  EXPECT_EQ(runs, 10);
}

TEST(host_device_threads, chunks_may_be_nested) {
  device_runtime runtime(open_host_device({.threads = 4}));
  const auto stream = runtime.create_stream();
  std::atomic<int> runs{0};
  submit_host_task(stream, [&] {
    host::parallel_for(8,
                       [&](std::int64_t) { host::parallel_for(8, [&](std::int64_t) { ++runs; }); });
  });
  stream.synchronize();
  EXPECT_EQ(runs, 64);
}

TEST(host_device_threads, a_thread_without_a_stream_computes_alone) {
  std::vector<std::int64_t> order;
  host::parallel_for(5, [&](std::int64_t i) { order.push_back(i); });
  EXPECT_EQ(order, (std::vector<std::int64_t>{0, 1, 2, 3, 4}));
}

TEST(host_device_threads, must_not_be_negative) {
  EXPECT_TRUE(
      throws(errc::invalid_argument, "threads", [] { (void)open_host_device({.threads = -1}); }));
}

}  // namespace
}  // namespace sluice::test
