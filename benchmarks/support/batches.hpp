// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "runtime/seam.hpp"
#include "tests/support/failing_allocations.hpp"

#include <sluice/runtime/stream.hpp>

#include <benchmark/benchmark.h>

#include <array>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <thread>

namespace sluice::bench {

/// The number of launches in a batch: as many as a lane has in flight.
///
/// The time of a batch is the time that its thread needs to enqueue it. The device runs meanwhile.
/// Between two batches the benchmark waits, untimed, until the device has finished. Otherwise it
/// would measure a device that is slower than the thread, or a driver that blocks because its queue
/// is full.
inline constexpr std::size_t batch_size = 128;

/// A rendezvous at which the threads of one benchmark begin each batch together. Every thread calls
/// `meet` equally often.
class meeting_point {
 public:
  static constexpr std::size_t max_threads = 16;

  void meet(const benchmark::State& state) noexcept {
    const auto round = ++rounds_[static_cast<std::size_t>(state.thread_index())];
    const auto all = round * static_cast<std::uint64_t>(state.threads());
    met_.fetch_add(1);
    while (met_.load() < all) std::this_thread::yield();
  }

 private:
  std::atomic<std::uint64_t> met_{0};
  std::array<std::uint64_t, max_threads> rounds_{};  // one element for each thread
};

/// The sums over the timed parts of a benchmark in one thread.
struct batch_totals {
  std::uint64_t steps = 0;
  std::uint64_t allocations = 0;  ///< of heap memory
  std::uint64_t waits = 0;        ///< queued on the stream
};

/// Calls for each batch: `prepare()`; `enqueue(i)` for i below `batch_size`, timed; `finish()`,
/// which waits for the device. One iteration of the benchmark is one `enqueue` on `stream`. Four
/// untimed batches run first, so that all containers reach their steady size.
template <class Prepare, class Enqueue, class Finish>
batch_totals time_batches(benchmark::State& state, meeting_point& together, stream_ref stream,
                          Prepare prepare, Enqueue enqueue, Finish finish) {
  using clock = std::chrono::steady_clock;
  batch_totals totals;
  const auto run = [&] {
    prepare();
    together.meet(state);
    const auto waits = detail::timeline::of(stream)->waits();
    const auto allocations = test::allocations_made();
    const auto start = clock::now();
    for (std::size_t i = 0; i < batch_size; ++i) enqueue(i);
    const std::chrono::duration<double> took = clock::now() - start;
    totals.steps += batch_size;
    totals.allocations += test::allocations_made() - allocations;
    totals.waits += detail::timeline::of(stream)->waits() - waits;
    finish();
    return took.count();
  };
  for (int i = 0; i < 4; ++i) (void)run();
  totals = {};
  while (state.KeepRunningBatch(batch_size)) state.SetIterationTime(run());
  state.SetItemsProcessed(static_cast<std::int64_t>(totals.steps));
  return totals;
}

}  // namespace sluice::bench
