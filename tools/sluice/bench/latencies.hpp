// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "tools/sluice/bench/bench.hpp"

#include <algorithm>
#include <cstddef>
#include <string>
#include <utility>
#include <vector>

namespace sluice::cli {

/// The quantile `part`, from 0 to 1, of at least one number.
inline double quantile(std::vector<double> all, double part) {
  std::sort(all.begin(), all.end());
  return all[static_cast<std::size_t>(part * static_cast<double>(all.size() - 1))];
}

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
    const auto begun = clock::now();
    round_trip();
    if (i >= 0) latencies.push_back(microseconds_since(begun));
  }
  return latencies;
}

}  // namespace sluice::cli
