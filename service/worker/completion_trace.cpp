// SPDX-License-Identifier: Apache-2.0
#include "service/worker/completion_trace.hpp"

#include <algorithm>
#include <cstddef>

namespace sluice::service {
namespace {

struct completed_launch {
  std::chrono::steady_clock::time_point completion{};
  std::chrono::nanoseconds latency{};
  std::size_t batch = 1;
};

thread_local completed_launch last{};

[[nodiscard]] std::uint64_t count_of(std::chrono::nanoseconds time) noexcept {
  return static_cast<std::uint64_t>(std::max<std::int64_t>(time.count(), 0));
}

}  // namespace

void completion_trace::after_complete(const kernel_info& launch, const kernel_outcome& outcome) {
  last = {.completion = std::chrono::steady_clock::now(),
          .latency = outcome.latency,
          .batch = launch.batch};
}

run_statistics completion_trace::statistics_of_last(
    std::chrono::steady_clock::time_point receipt) noexcept {
  return {.queue_ns = count_of(last.completion - last.latency - receipt),
          .compute_ns = count_of(last.latency),
          .batch = last.batch};
}

}  // namespace sluice::service
