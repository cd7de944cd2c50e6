// SPDX-License-Identifier: Apache-2.0
#include "service/metrics/status_json.hpp"

#include "service/metrics/refusals.hpp"

#include <sluice/version.hpp>

#include <nlohmann/json.hpp>

#include <chrono>
#include <cmath>

namespace sluice::service {
namespace {

using nlohmann::json;

[[nodiscard]] const char* name_of(serving_state state) noexcept {
  switch (state) {
    case serving_state::ready:
      return "served";
    case serving_state::loading:
      return "loading";
    case serving_state::unavailable:
      return "unavailable";
  }
  return "unavailable";
}

/// The cumulative counts by upper bound; that of the last one, infinity, is null.
[[nodiscard]] json histogram_json(const prometheus::ClientMetric::Histogram& histogram) {
  auto bounds = json::array();
  auto counts = json::array();
  for (const auto& bucket : histogram.bucket) {
    bounds.push_back(std::isinf(bucket.upper_bound) ? json() : json(bucket.upper_bound));
    counts.push_back(bucket.cumulative_count);
  }
  return {{"bounds", std::move(bounds)}, {"counts", std::move(counts)}};
}

[[nodiscard]] json version_json(const version_status& version) {
  json text{{"name", version.model},
            {"version", version.version},
            {"state", name_of(version.state)},
            {"problem", version.problem}};
  if (!version.statistics) return text;
  const auto counts = version.statistics->counts();
  text.update({{"successes", counts.successes},
               {"failures", counts.failures},
               {"in_flight", counts.in_flight},
               {"inferences", counts.inferences},
               {"executions", counts.executions()},
               {"request_seconds", histogram_json(counts.request_seconds)},
               {"queue_seconds", histogram_json(counts.queue_seconds)},
               {"device_seconds", histogram_json(counts.device_seconds)}});
  return text;
}

[[nodiscard]] json worker_json(const worker_status& worker) {
  return {{"device", worker.device},
          {"process", worker.process},
          {"is_up", worker.is_up},
          {"restarts", worker.restarts},
          {"runs_in_flight", worker.runs_in_flight},
          {"request_bytes", worker.request_bytes}};
}

}  // namespace

std::string status_json(const backend_status& backend, const http_counts& http) {
  auto models = json::array();
  for (const auto& each : backend.versions) models.push_back(version_json(each));
  auto workers = json::array();
  for (const auto& each : backend.workers) workers.push_back(worker_json(each));
  auto replies = json::object();
  for (const auto& [status, count] : http.replies) replies[std::to_string(status)] = count;
  auto refused = json::object();
  for (const auto& each : refusals_of(backend, http)) refused[each.reason] = each.count;
  const auto now = std::chrono::steady_clock::now().time_since_epoch();
  const json text{{"version", sluice::version},
                  {"is_ready", backend.is_ready},
                  {"seconds", std::chrono::duration<double>(now).count()},
                  {"models", std::move(models)},
                  {"workers", std::move(workers)},
                  {"request_capacity", backend.request_capacity},
                  {"http",
                   {{"replies", std::move(replies)},
                    {"in_flight", http.in_flight},
                    {"connections", http.connections},
                    {"received_bytes", http.received_bytes},
                    {"sent_bytes", http.sent_bytes},
                    {"request_seconds", histogram_json(http.request_seconds)}}},
                  {"refused", std::move(refused)}};
  return text.dump(-1, ' ', true, json::error_handler_t::replace);
}

}  // namespace sluice::service
