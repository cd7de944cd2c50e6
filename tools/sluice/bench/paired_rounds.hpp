// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "tools/sluice/bench/bench.hpp"
#include "tools/sluice/bench/latencies.hpp"

#include <sluice/runtime/device_runtime.hpp>

#include <barrier>
#include <numeric>
#include <type_traits>

namespace sluice::cli {

/// Work in pieces whose time is measured.
class timed_work {
 public:
  /// `run(n)` does `n` pieces. If it returns a duration, this is the time of the work; otherwise it
  /// is the time of the call.
  template <class Run>
  timed_work(Run run) {  // NOLINT(google-explicit-constructor)
    if constexpr (std::is_void_v<std::invoke_result_t<Run&, std::int64_t>>) {
      run_ = [run = std::move(run)](std::int64_t n) mutable {
        const auto start = clock::now();
        run(n);
        return clock::now() - start;
      };
    } else {
      run_ = std::move(run);
    }
  }
  [[nodiscard]] clock::duration operator()(std::int64_t n) const { return run_(n); }

 private:
  std::function<clock::duration(std::int64_t)> run_;
};

/// A way to do the work of a section.
struct way_of_work {
  std::string name;
  timed_work run;
  std::size_t reference = 0;                 ///< the number of the way to which its ratio is taken
  std::vector<std::size_t> comparisons{};    ///< the numbers of further ways for ratios
  std::function<double()> mean_batch{};      ///< if given, counts the batches after the rounds
  std::int64_t fewest_pieces = 32;           ///< in a round
  std::shared_ptr<latency_log> latencies{};  ///< if given, has those of all requests of the way
};

/// Ways to do the same work, measured in turns: each round times all of them once in random order,
/// so that other load on the machine affects all alike. The ratios are those within a round.
class paired_rounds {
 public:
  /// The section `path` of the report.
  paired_rounds(bench_run& run, std::string path, std::string title,
                shown_figure shown = shown_rates)
      : run_(run), section_{std::move(path), std::move(title), shown} {}

  /// Add a way, and return its number: 0 for the first one. No two ways have the same name.
  ///@{
  std::size_t add(way_of_work way) {
    ways_.push_back({std::move(way)});
    return ways_.size() - 1;
  }
  std::size_t add(std::string name, timed_work run, std::size_t reference = 0) {
    return add(way_of_work{std::move(name), std::move(run), reference});
  }
  /// A way that is its own reference.
  std::size_t add_reference(std::string name, timed_work run) {
    return add(std::move(name), std::move(run), ways_.size());
  }
  ///@}

  /// Measures all ways, and adds the section to the report.
  void measure();

 private:
  struct measured_way {
    way_of_work way;
    std::int64_t pieces = way.fewest_pieces;
    std::vector<double> rates{};  // of each round
    latency_rounds latencies{};

    [[nodiscard]] clock::duration time() const { return way.run(pieces); }
  };

  /// The shortest time of one way in one round. One round is a trial.
  [[nodiscard]] clock::duration shortest() const {
    return std::chrono::milliseconds(run_.rounds == 1 ? 10 : 50);
  }
  void warm_up();
  void measure_round();
  [[nodiscard]] comparison compare(const std::vector<double>& rates, std::size_t reference) const;

  bench_run& run_;
  report_section section_;
  std::vector<measured_way> ways_;
};

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
    const auto start = clock::now();
    for (std::size_t i = 0; i < calls; ++i) enqueue(i);
    total += clock::now() - start;
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
  std::barrier start(static_cast<std::ptrdiff_t>(threads));
  on_threads(threads, [&](std::size_t t) {
    streams[t].ref().device().prepare_own_thread();
    times[t] = enqueue_time(
        count, [&] { start.arrive_and_wait(); }, [&](std::size_t i) { enqueue(t, i); },
        [&] { streams[t].synchronize(); });
  });
  return std::accumulate(times.begin(), times.end(), clock::duration{0}) / threads;
}

}  // namespace sluice::cli
