// SPDX-License-Identifier: Apache-2.0
#include "service/grpc/statistics_message.hpp"

#include "service/grpc/wire_writer.hpp"
#include "service/metrics/statistics_selection.hpp"

namespace sluice::service {
namespace {

void append_duration(std::string& message, std::uint32_t field, std::uint64_t count,
                     std::uint64_t ns) {
  std::string text;
  append_number(text, 1, count);
  append_number(text, 2, ns);
  append_bytes(message, field, text);
}

/// `InferStatistics`.
[[nodiscard]] std::string infer_statistics(const model_counts& counts) {
  std::string text;
  append_duration(text, 1, counts.successes, counts.success_ns);
  append_duration(text, 2, counts.failures, counts.failure_ns);
  append_duration(text, 3, counts.successes, counts.queue_ns);
  append_duration(text, 4, counts.successes, 0);
  append_duration(text, 5, counts.successes, counts.compute_ns);
  append_duration(text, 6, counts.successes, 0);
  append_duration(text, 7, 0, 0);
  append_duration(text, 8, 0, 0);
  return text;
}

/// Appends an `InferBatchStatistics` for each number of requests of a launch.
void append_batches(std::string& message, const model_counts& counts) {
  for (std::size_t size = 1; size < counts.batches.size(); ++size) {
    const auto launches = counts.executions(size);
    if (launches == 0) continue;
    std::string text;
    append_number(text, 1, size);
    append_duration(text, 2, launches, 0);
    append_duration(text, 3, launches, counts.batches[size].compute_ns / size);
    append_duration(text, 4, launches, 0);
    append_bytes(message, 7, text);
  }
}

/// `ModelStatistics`.
[[nodiscard]] std::string model_statistics_message(const version_status& version) {
  const auto counts = version.statistics->counts();
  std::string text;
  append_text(text, 1, version.model);
  append_text(text, 2, std::to_string(version.version));
  append_number(text, 3, static_cast<std::uint64_t>(counts.last_success_ms));
  append_number(text, 4, counts.inferences);
  append_number(text, 5, counts.executions());
  append_bytes(text, 6, infer_statistics(counts));
  append_batches(text, counts);
  return text;
}

}  // namespace

std::string statistics_message(const backend_status& backend, std::string_view model,
                               std::string_view version) {
  std::string message;
  for (const auto* each : select_statistics(backend, model, version)) {
    append_bytes(message, 1, model_statistics_message(*each));
  }
  return message;
}

}  // namespace sluice::service
