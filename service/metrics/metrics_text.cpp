// SPDX-License-Identifier: Apache-2.0
#include "service/metrics/metrics_text.hpp"

#include "service/metrics/refusals.hpp"

#include <prometheus/metric_family.h>
#include <prometheus/text_serializer.h>

#include <array>
#include <limits>
#include <utility>
#include <vector>

namespace sluice::service {
namespace {

using prometheus::ClientMetric;
using prometheus::MetricFamily;
using prometheus::MetricType;
using label_list = std::vector<ClientMetric::Label>;

constexpr std::uint64_t ns_in_us = 1000;

[[nodiscard]] label_list labels_of(const version_status& version) {
  return {{"model", version.model}, {"version", std::to_string(version.version)}};
}

/// Collects the families of the text.
class family_list {
 public:
  void begin(const char* name, MetricType type, const char* help) {
    families_.push_back({.name = name, .help = help, .type = type, .metric = {}});
  }
  void add(label_list labels, double value) {
    auto& metric = next(std::move(labels));
    (families_.back().type == MetricType::Counter ? metric.counter.value : metric.gauge.value) =
        value;
  }
  void add(label_list labels, std::uint64_t value) {
    add(std::move(labels), static_cast<double>(value));
  }
  void add(label_list labels, const ClientMetric::Histogram& value) {
    next(std::move(labels)).histogram = value;
  }
  [[nodiscard]] std::string text() const {
    return prometheus::TextSerializer().Serializer::Serialize(families_);
  }

 private:
  ClientMetric& next(label_list labels) {
    auto& metric = families_.back().metric.emplace_back();
    metric.label = std::move(labels);
    return metric;
  }

  std::vector<MetricFamily> families_;
};

/// The requests by the number of requests of their launch.
[[nodiscard]] ClientMetric::Histogram batch_histogram(const model_counts& counts) {
  constexpr std::array<std::size_t, 8> bounds{1, 2, 4, 8, 16, 32, 64, 128};
  static_assert(bounds.back() == run_statistics::max_batch);
  ClientMetric::Histogram histogram;
  std::size_t size = 1;
  for (const auto bound : bounds) {
    for (; size <= bound; ++size) {
      histogram.sample_count += counts.batches[size].requests;
      histogram.sample_sum += static_cast<double>(size * counts.batches[size].requests);
    }
    histogram.bucket.push_back(
        {.cumulative_count = histogram.sample_count, .upper_bound = static_cast<double>(bound)});
  }
  histogram.bucket.push_back({.cumulative_count = histogram.sample_count,
                              .upper_bound = std::numeric_limits<double>::infinity()});
  return histogram;
}

void add_models(family_list& families, const backend_status& backend) {
  std::vector<std::pair<label_list, model_counts>> versions;
  for (const auto& each : backend.versions) {
    if (each.statistics) versions.emplace_back(labels_of(each), each.statistics->counts());
  }
  const auto add = [&](const char* name, MetricType type, const char* help, auto value) {
    families.begin(name, type, help);
    for (const auto& [labels, counts] : versions) families.add(labels, value(counts));
  };
  add("nv_inference_request_success", MetricType::Counter, "Requests that a model has computed",
      [](const model_counts& c) { return c.successes; });
  add("nv_inference_request_failure", MetricType::Counter,
      "Requests for a served model that ended with an error, cancelled ones included",
      [](const model_counts& c) { return c.failures; });
  add("nv_inference_count", MetricType::Counter,
      "Inferences: a computed request of a batch of n counts n times",
      [](const model_counts& c) { return c.inferences; });
  add("nv_inference_exec_count", MetricType::Counter,
      "Launches: requests that were launched together count once",
      [](const model_counts& c) { return c.executions(); });
  add("nv_inference_request_duration_us", MetricType::Counter,
      "Time of computed requests, from the end of their inputs to their results",
      [](const model_counts& c) { return c.success_ns / ns_in_us; });
  add("nv_inference_queue_duration_us", MetricType::Counter,
      "Time of computed requests from their receipt by the worker to their launch; making a "
      "program counts",
      [](const model_counts& c) { return c.queue_ns / ns_in_us; });
  add("nv_inference_compute_infer_duration_us", MetricType::Counter,
      "Time of computed requests from their launch to its completion; it includes transfers and "
      "the rest of an earlier launch of the lane; each request of a launch counts",
      [](const model_counts& c) { return c.compute_ns / ns_in_us; });
  add("sluice_model_request_seconds", MetricType::Histogram,
      "Time of a request of a model, from the end of its inputs to its results or its error",
      [](const model_counts& c) { return c.request_seconds; });
  add("sluice_model_queue_seconds", MetricType::Histogram, "As nv_inference_queue_duration_us",
      [](const model_counts& c) { return c.queue_seconds; });
  add("sluice_model_device_seconds", MetricType::Histogram,
      "As nv_inference_compute_infer_duration_us",
      [](const model_counts& c) { return c.device_seconds; });
  add("sluice_model_batch_size", MetricType::Histogram,
      "Requests in the launch of a request; each request of a launch counts", batch_histogram);
  add("sluice_model_requests_in_flight", MetricType::Gauge, "Requests of a model without an answer",
      [](const model_counts& c) { return c.in_flight; });
  families.begin("sluice_model_served", MetricType::Gauge, "Whether the version is served");
  for (const auto& each : backend.versions) {
    if (!each.statistics) continue;
    families.add(labels_of(each), std::uint64_t{each.state == serving_state::ready});
  }
}

void add_workers(family_list& families, const backend_status& backend) {
  const auto add = [&](const char* name, MetricType type, const char* help, auto value) {
    families.begin(name, type, help);
    for (std::size_t i = 0; i < backend.workers.size(); ++i) {
      families.add({{"worker", std::to_string(i)}}, value(backend.workers[i]));
    }
  };
  add("sluice_worker_up", MetricType::Gauge,
      "Whether the worker process gets requests and computes",
      [](const worker_status& w) { return std::uint64_t{w.is_up}; });
  add("sluice_worker_restarts_total", MetricType::Counter,
      "Processes that replaced a worker process that has ended",
      [](const worker_status& w) { return w.restarts; });
  add("sluice_worker_requests_in_flight", MetricType::Gauge, "Requests that the worker process has",
      [](const worker_status& w) { return w.runs_in_flight; });
  add("sluice_worker_request_memory_bytes", MetricType::Gauge,
      "Memory for inputs that is in use, of the arena of the worker process",
      [](const worker_status& w) { return w.request_bytes; });
  add("sluice_worker_request_memory_capacity_bytes", MetricType::Gauge,
      "Memory for inputs, of the arena of the worker process",
      [&](const worker_status&) { return backend.request_capacity; });
}

void add_http(family_list& families, const http_counts& http) {
  const auto add = [&](const char* name, MetricType type, const char* help, const auto& value) {
    families.begin(name, type, help);
    families.add({}, value);
  };
  families.begin("sluice_http_requests_total", MetricType::Counter,
                 "Requests of HTTP by the status code of their answer; 499: the connection was "
                 "closed before the answer");
  for (const auto& [status, count] : http.replies) {
    families.add({{"code", std::to_string(status)}}, count);
  }
  add("sluice_http_request_seconds", MetricType::Histogram,
      "Time from the head of a request to the beginning of its answer", http.request_seconds);
  add("sluice_http_requests_in_flight", MetricType::Gauge, "Requests of HTTP without an answer",
      http.in_flight);
  add("sluice_http_connections", MetricType::Gauge, "Connections that are open", http.connections);
  add("sluice_http_received_bytes_total", MetricType::Counter, "Bytes read from clients",
      http.received_bytes);
  add("sluice_http_sent_bytes_total", MetricType::Counter, "Bytes written to clients",
      http.sent_bytes);
  add("sluice_http_json_bytes", MetricType::Gauge, "JSON text that is being read or parsed",
      http.json_bytes);
}

void add_refusals(family_list& families, const backend_status& backend, const http_counts& http) {
  families.begin("sluice_requests_refused_total", MetricType::Counter,
                 "Requests and connections that were refused, by reason");
  for (const auto& each : refusals_of(backend, http)) {
    families.add({{"reason", each.reason}}, each.count);
  }
}

}  // namespace

std::string metrics_text(const backend_status& backend, const http_counts& http) {
  family_list families;
  add_models(families, backend);
  add_workers(families, backend);
  add_http(families, http);
  add_refusals(families, backend, http);
  return families.text();
}

}  // namespace sluice::service
