// SPDX-License-Identifier: Apache-2.0
#include "service/metrics/model_statistics.hpp"

#include "service/metrics/metric_value.hpp"

#include <algorithm>

namespace sluice::service {
namespace {

[[nodiscard]] double seconds_of(double ns) noexcept {
  constexpr double second = 1e9;
  return ns / second;
}

}  // namespace

std::uint64_t model_counts::executions() const noexcept {
  std::uint64_t sum = 0;
  for (std::size_t count = 1; count < batches.size(); ++count) sum += executions(count);
  return sum;
}

void model_statistics::succeed(nanoseconds elapsed, const run_statistics& run,
                               std::uint64_t members) noexcept {
  const auto total = static_cast<double>(elapsed.count());
  const auto queue = std::min(static_cast<double>(run.queue_ns), total);
  const auto compute = std::min(static_cast<double>(run.compute_ns), total - queue);
  in_flight_.Decrement();
  successes_.Increment();
  inferences_.Increment(static_cast<double>(members));
  success_ns_.Increment(total);
  queue_ns_.Increment(queue);
  compute_ns_.Increment(compute);
  request_seconds_.Observe(seconds_of(total));
  queue_seconds_.Observe(seconds_of(queue));
  device_seconds_.Observe(seconds_of(compute));
  auto& together = batches_.at(std::clamp(run.batch, std::uint64_t{1}, run_statistics::max_batch));
  together.requests.Increment();
  together.compute_ns.Increment(compute);
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  last_success_ms_.store(std::chrono::duration_cast<std::chrono::milliseconds>(now).count(),
                         std::memory_order_relaxed);
}

void model_statistics::fail(nanoseconds elapsed) noexcept {
  const auto total = static_cast<double>(elapsed.count());
  in_flight_.Decrement();
  failures_.Increment();
  failure_ns_.Increment(total);
  request_seconds_.Observe(seconds_of(total));
}

model_counts model_statistics::counts() const {
  model_counts counts{.successes = whole(successes_),
                      .failures = whole(failures_),
                      .in_flight = whole(in_flight_),
                      .inferences = whole(inferences_),
                      .success_ns = whole(success_ns_),
                      .failure_ns = whole(failure_ns_),
                      .queue_ns = whole(queue_ns_),
                      .compute_ns = whole(compute_ns_),
                      .last_success_ms = last_success_ms_.load(std::memory_order_relaxed),
                      .request_seconds = request_seconds_.Collect().histogram,
                      .queue_seconds = queue_seconds_.Collect().histogram,
                      .device_seconds = device_seconds_.Collect().histogram};
  for (std::size_t i = 0; i < batches_.size(); ++i) {
    counts.batches[i] = {.requests = whole(batches_[i].requests),
                         .compute_ns = whole(batches_[i].compute_ns)};
  }
  return counts;
}

}  // namespace sluice::service
