// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "service/arena/run_statistics.hpp"
#include "service/metrics/duration_bounds.hpp"

#include <prometheus/counter.h>
#include <prometheus/gauge.h>
#include <prometheus/histogram.h>

#include <array>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>

namespace sluice::service {

/// What a version of a model had done at some time.
struct model_counts {
  using histogram = prometheus::ClientMetric::Histogram;
  /// The requests of launches with the same number of requests.
  struct batch {
    std::uint64_t requests = 0;
    std::uint64_t compute_ns = 0;  ///< as each request has seen it
  };

  std::uint64_t successes = 0;
  std::uint64_t failures = 0;
  std::uint64_t in_flight = 0;   ///< requests without an answer
  std::uint64_t inferences = 0;  ///< of successes; a request of a batch of n counts n times
  std::uint64_t success_ns = 0;  ///< from requests to answers
  std::uint64_t failure_ns = 0;
  std::uint64_t queue_ns = 0;        ///< of successes, as in `run_statistics`
  std::uint64_t compute_ns = 0;      ///< of successes, as in `run_statistics`
  std::int64_t last_success_ms = 0;  ///< since 1970; 0: none
  histogram request_seconds{};       ///< of successes and failures
  histogram queue_seconds{};
  histogram device_seconds{};
  std::array<batch, run_statistics::max_batch + 1> batches{};  ///< by the requests of a launch

  /// The launches of `count` requests.
  [[nodiscard]] std::uint64_t executions(std::size_t count) const noexcept {
    return (batches[count].requests + count - 1) / count;
  }
  /// All launches.
  [[nodiscard]] std::uint64_t executions() const noexcept;
};

/// Counts what a version of a model does. Thread-safe.
class model_statistics {
 public:
  using nanoseconds = std::chrono::nanoseconds;

  /// A request has come.
  void begin() noexcept { in_flight_.Increment(); }
  /// It has its results after `elapsed`. Times of the worker that exceed it become as long.
  /// @param members  the extent of its batch
  void succeed(nanoseconds elapsed, const run_statistics& run, std::uint64_t members) noexcept;
  /// It has an error after `elapsed`.
  void fail(nanoseconds elapsed) noexcept;

  [[nodiscard]] model_counts counts() const;

 private:
  using counter = prometheus::Counter;
  struct batch {
    counter requests{};
    counter compute_ns{};
  };

  // Whole numbers are exact up to 2^53.
  counter successes_{};
  counter failures_{};
  prometheus::Gauge in_flight_{};
  counter inferences_{};
  counter success_ns_{};
  counter failure_ns_{};
  counter queue_ns_{};
  counter compute_ns_{};
  std::atomic<std::int64_t> last_success_ms_{0};
  prometheus::Histogram request_seconds_{duration_bounds()};
  prometheus::Histogram queue_seconds_{duration_bounds()};
  prometheus::Histogram device_seconds_{duration_bounds()};
  std::array<batch, run_statistics::max_batch + 1> batches_{};
};

}  // namespace sluice::service
