// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "tools/sluice/bench/bench.hpp"
#include "tools/sluice/bench/processors.hpp"

#include <sluice/runtime/device_runtime.hpp>

#include <algorithm>
#include <barrier>
#include <cstddef>
#include <cstdint>
#include <numeric>
#include <vector>

namespace sluice::cli {

/// The calls in a batch: as many as a lane has in flight.
inline constexpr std::int64_t enqueue_batch = 128;

/// Returns how long a thread needs to enqueue work by `count` calls of `enqueue(i)`, in batches.
/// `i` is below `enqueue_batch`. `prepare()` and `finish()`, which waits for the device, surround
/// each batch and are not timed. Otherwise the time would include that of a device that is slower
/// than the thread, or of a driver that blocks because its queue is full.
template <class Prepare, class Enqueue, class Finish>
clock::duration enqueue_time(std::int64_t count, const Prepare& prepare, const Enqueue& enqueue,
                             const Finish& finish) {
  clock::duration total{0};
  for (std::int64_t done = 0; done < count; done += enqueue_batch) {
    prepare();
    const auto calls = static_cast<std::size_t>(std::min(enqueue_batch, count - done));
    const auto begun = clock::now();
    for (std::size_t i = 0; i < calls; ++i) enqueue(i);
    total += clock::now() - begun;
    finish();
  }
  return total;
}

/// The same for `threads` threads at once, each on one of `streams`. They begin each batch
/// together. Thread `t` calls `enqueue(t, i)` `count` times. Returns the mean of their times.
template <class Enqueue>
clock::duration enqueue_time_of_threads(const std::vector<stream>& streams, std::size_t threads,
                                        std::int64_t count, const Enqueue& enqueue) {
  std::vector<clock::duration> times(threads);
  std::barrier together(static_cast<std::ptrdiff_t>(threads));
  on_threads(threads, [&](std::size_t t) {
    const pinned_client here(t);
    streams[t].ref().device().prepare_own_thread();
    times[t] = enqueue_time(
        count, [&] { together.arrive_and_wait(); }, [&](std::size_t i) { enqueue(t, i); },
        [&] { streams[t].synchronize(); });
  });
  return std::accumulate(times.begin(), times.end(), clock::duration{0}) / threads;
}

}  // namespace sluice::cli
