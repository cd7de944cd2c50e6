// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "tools/sluice/bench/bench.hpp"

#include <mutex>

namespace sluice::cli {

/// The latencies of the requests of several clients, in microseconds. Thread-safe.
class latency_log {
 public:
  void add(double latency) {
    const std::lock_guard lock(mutex_);
    latencies_.push_back(latency);
  }
  /// Those that were added since the last call.
  [[nodiscard]] std::vector<double> take() {
    const std::lock_guard lock(mutex_);
    return std::exchange(latencies_, {});
  }

 private:
  std::mutex mutex_;
  std::vector<double> latencies_;
};

/// The latencies, in microseconds, of requests that are measured in rounds. The figures are the
/// medians over the rounds.
class latency_rounds {
 public:
  void add_round(const std::vector<double>& latencies) {
    medians_.push_back(quantile(latencies, 0.5));
    p99_.push_back(quantile(latencies, 0.99));
  }
  [[nodiscard]] double median() const { return quantile(medians_, 0.5); }
  [[nodiscard]] double p99() const { return quantile(p99_, 0.5); }
  [[nodiscard]] latency_row row(std::string key, std::string name) const {
    return {std::move(key), std::move(name), median(), p99()};
  }

 private:
  std::vector<double> medians_;
  std::vector<double> p99_;
};

/// Calls `round_trip()` `warm_up` times, then `count` times. Returns the latencies of the latter.
template <class RoundTrip>
std::vector<double> time_round_trips(int warm_up, int count, const RoundTrip& round_trip) {
  std::vector<double> latencies;
  for (int i = -warm_up; i < count; ++i) {
    const auto start = clock::now();
    round_trip();
    if (i >= 0) latencies.push_back(microseconds_since(start));
  }
  return latencies;
}

/// The latencies of a client with one request in flight: alone, and beside other clients.
struct latency_comparison {
  latency_rounds baseline;    ///< alone
  latency_rounds contention;  ///< beside other clients

  /// Measures a round of 1000 calls of `round_trip()` each. `run_beside(work)` calls `work()` while
  /// the other clients send requests.
  template <class RoundTrip, class RunBeside>
  void add_round(const RoundTrip& round_trip, const RunBeside& run_beside) {
    const auto measure = [&] {
      return time_round_trips(250, 1000, round_trip);
    };
    baseline.add_round(measure());
    run_beside([&] { contention.add_round(measure()); });
  }
  [[nodiscard]] double median_ratio() const { return contention.median() / baseline.median(); }
  [[nodiscard]] double p99_ratio() const { return contention.p99() / baseline.p99(); }
};

}  // namespace sluice::cli
