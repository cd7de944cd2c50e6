// SPDX-License-Identifier: Apache-2.0
#include "service/metrics/statistics_json.hpp"

#include "service/metrics/statistics_selection.hpp"

#include <nlohmann/json.hpp>

namespace sluice::service {
namespace {

using nlohmann::json;

[[nodiscard]] json duration_json(std::uint64_t count, std::uint64_t ns) {
  return {{"count", count}, {"ns", ns}};
}

[[nodiscard]] json batches_json(const model_counts& counts) {
  auto all = json::array();
  for (std::size_t size = 1; size < counts.batches.size(); ++size) {
    const auto launches = counts.executions(size);
    if (launches == 0) continue;
    all.push_back(
        {{"batch_size", size},
         {"compute_input", duration_json(launches, 0)},
         {"compute_infer", duration_json(launches, counts.batches[size].compute_ns / size)},
         {"compute_output", duration_json(launches, 0)}});
  }
  return all;
}

[[nodiscard]] json model_stats_json(const version_status& version) {
  const auto counts = version.statistics->counts();
  return {{"name", version.model},
          {"version", std::to_string(version.version)},
          {"last_inference", counts.last_success_ms},
          {"inference_count", counts.inferences},
          {"execution_count", counts.executions()},
          {"inference_stats",
           {{"success", duration_json(counts.successes, counts.success_ns)},
            {"fail", duration_json(counts.failures, counts.failure_ns)},
            {"queue", duration_json(counts.successes, counts.queue_ns)},
            {"compute_input", duration_json(counts.successes, 0)},
            {"compute_infer", duration_json(counts.successes, counts.compute_ns)},
            {"compute_output", duration_json(counts.successes, 0)},
            {"cache_hit", duration_json(0, 0)},
            {"cache_miss", duration_json(0, 0)}}},
          {"batch_stats", batches_json(counts)}};
}

}  // namespace

std::string statistics_json(const backend_status& backend, std::string_view model,
                            std::string_view version) {
  auto all = json::array();
  for (const auto* each : select_statistics(backend, model, version)) {
    all.push_back(model_stats_json(*each));
  }
  return json{{"model_stats", std::move(all)}}.dump(-1, ' ', false, json::error_handler_t::replace);
}

}  // namespace sluice::service
