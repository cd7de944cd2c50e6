// SPDX-License-Identifier: Apache-2.0
#include "service/metrics/metrics_text.hpp"

#include "tests/service/metrics/parsed_metrics.hpp"
#include "tests/support/seed.hpp"

#include <gtest/gtest.h>

#include <chrono>
#include <memory>
#include <string>
#include <vector>

namespace sluice::service {
namespace {

using std::chrono::nanoseconds;
using test::metric_labels;
using test::parsed_metrics;

version_status version_of(const std::string& model, std::uint64_t number,
                          std::shared_ptr<const model_statistics> statistics) {
  return {.model = model,
          .version = number,
          .state = serving_state::ready,
          .statistics = std::move(statistics)};
}

TEST(metrics_text, has_what_a_model_has_done) {
  auto generator = sluice::test::make_generator();
  const auto statistics = std::make_shared<model_statistics>();
  std::uint64_t inferences = 0, request_ns = 0, queue_ns = 0, compute_ns = 0;
  const std::uint64_t successes = 200 + generator() % 100, failures = generator() % 100;
  for (std::uint64_t i = 0; i < successes; ++i) {
    const std::uint64_t members = generator() % 9, queue = generator() % 1'000'000,
                        compute = generator() % 10'000'000;
    statistics->begin();
    statistics->succeed(nanoseconds(queue + compute + 77),
                        {.queue_ns = queue, .compute_ns = compute, .batch = 1}, members);
    inferences += members;
    request_ns += queue + compute + 77;
    queue_ns += queue;
    compute_ns += compute;
  }
  for (std::uint64_t i = 0; i < failures; ++i) {
    statistics->begin();
    statistics->fail(nanoseconds(5));
  }
  statistics->begin();
  const parsed_metrics metrics(
      metrics_text({.versions = {version_of("m", 3, statistics)}}, http_counts{}));
  const metric_labels m{{"model", "m"}, {"version", "3"}};
  const auto expect = [&](const char* name, std::uint64_t value) {
    EXPECT_EQ(metrics.value(name, m), static_cast<double>(value)) << name;
  };
  expect("nv_inference_request_success", successes);
  expect("nv_inference_request_failure", failures);
  expect("nv_inference_count", inferences);
  expect("nv_inference_exec_count", successes);
  expect("nv_inference_request_duration_us", request_ns / 1000);
  expect("nv_inference_queue_duration_us", queue_ns / 1000);
  expect("nv_inference_compute_infer_duration_us", compute_ns / 1000);
  expect("sluice_model_request_seconds_count", successes + failures);
  expect("sluice_model_queue_seconds_count", successes);
  expect("sluice_model_device_seconds_count", successes);
  expect("sluice_model_batch_size_count", successes);
  expect("sluice_model_batch_size_sum", successes);
  expect("sluice_model_requests_in_flight", 1);
  expect("sluice_model_served", 1);
  EXPECT_NEAR(metrics.value("sluice_model_device_seconds_sum", m),
              static_cast<double>(compute_ns) / 1e9, 1e-6);

  double last = 0;
  for (const char* bound : {"0.0001", "0.0025", "0.01", "+Inf"}) {
    auto bucket = m;
    bucket["le"] = bound;
    const auto count = metrics.value("sluice_model_device_seconds_bucket", bucket);
    EXPECT_GE(count, last) << bound;
    last = count;
  }
  EXPECT_EQ(last, static_cast<double>(successes));
}

TEST(metrics_text, has_the_sizes_of_batches) {
  const auto statistics = std::make_shared<model_statistics>();
  const auto run = [&](std::uint64_t batch, int requests) {
    for (int i = 0; i < requests; ++i) {
      statistics->begin();
      statistics->succeed(nanoseconds(1), {.batch = batch}, 1);
    }
  };
  run(1, 5);
  run(4, 8);
  run(100, 100);
  const parsed_metrics metrics(
      metrics_text({.versions = {version_of("m", 1, statistics)}}, http_counts{}));
  const metric_labels m{{"model", "m"}, {"version", "1"}};
  EXPECT_EQ(metrics.value("nv_inference_exec_count", m), 8);
  EXPECT_EQ(metrics.value("sluice_model_batch_size_sum", m), 5 + 32 + 10'000);
  const auto bucket = [&](const char* bound) {
    return metrics.value("sluice_model_batch_size_bucket",
                         {{"model", "m"}, {"version", "1"}, {"le", bound}});
  };
  EXPECT_EQ(bucket("1"), 5);
  EXPECT_EQ(bucket("2"), 5);
  EXPECT_EQ(bucket("4"), 13);
  EXPECT_EQ(bucket("64"), 13);
  EXPECT_EQ(bucket("128"), 113);
  EXPECT_EQ(bucket("+Inf"), 113);
}

TEST(metrics_text, has_what_the_service_has_done) {
  const backend_status backend{.workers = {{.device = "host:0",
                                            .process = 7,
                                            .is_up = true,
                                            .restarts = 3,
                                            .runs_in_flight = 2,
                                            .request_bytes = 512},
                                           {}},
                               .request_capacity = 4096,
                               .refused_without_worker = 1,
                               .refused_memory = 2,
                               .refused_in_flight = 3,
                               .refused_size = 4,
                               .refused_quarantine = 8};
  const http_counts http{.replies = {{200, 10}, {404, 2}},
                         .in_flight = 5,
                         .received_bytes = 600,
                         .sent_bytes = std::uint64_t{1} << 50,
                         .connections = 8,
                         .refused_origins = 5,
                         .refused_connections = 6,
                         .refused_json = 7,
                         .refused_tenants = 9,
                         .refused_replies = 10,
                         .json_bytes = 9};
  const parsed_metrics metrics(metrics_text(backend, http));
  EXPECT_EQ(metrics.value("sluice_worker_up", {{"worker", "0"}}), 1);
  EXPECT_EQ(metrics.value("sluice_worker_up", {{"worker", "1"}}), 0);
  EXPECT_EQ(metrics.value("sluice_worker_restarts_total", {{"worker", "0"}}), 3);
  EXPECT_EQ(metrics.value("sluice_worker_requests_in_flight", {{"worker", "0"}}), 2);
  EXPECT_EQ(metrics.value("sluice_worker_request_memory_bytes", {{"worker", "0"}}), 512);
  EXPECT_EQ(metrics.value("sluice_worker_request_memory_capacity_bytes", {{"worker", "1"}}), 4096);
  EXPECT_EQ(metrics.value("sluice_http_requests_total", {{"code", "200"}}), 10);
  EXPECT_EQ(metrics.value("sluice_http_requests_total", {{"code", "404"}}), 2);
  EXPECT_EQ(metrics.value("sluice_http_requests_in_flight"), 5);
  EXPECT_EQ(metrics.value("sluice_http_received_bytes_total"), 600);
  EXPECT_EQ(metrics.value("sluice_http_sent_bytes_total"), 0x1p50);
  EXPECT_EQ(metrics.value("sluice_http_connections"), 8);
  EXPECT_EQ(metrics.value("sluice_http_json_bytes"), 9);
  double sum = 0;
  for (const char* reason :
       {"connections", "foreign_origin", "json_memory", "input_memory", "reply_memory", "in_flight",
        "no_worker", "too_large", "quarantine", "tenant_limit"}) {
    sum += metrics.value("sluice_requests_refused_total", {{"reason", reason}});
  }
  EXPECT_EQ(sum, 1 + 2 + 3 + 4 + 5 + 6 + 7 + 8 + 9 + 10);
  EXPECT_EQ(metrics.label_names(), (std::set<std::string>{"code", "le", "reason", "worker"}));
}

TEST(metrics_text, is_not_changed_by_names) {
  const std::string hostile = "<script>\"} 7\n# TYPE x counter\nx{y=\"\\\"\r\\n\xff";
  backend_status backend{};
  for (std::uint64_t i = 0; i < 3; ++i) {
    backend.versions.push_back(
        version_of(i == 0 ? hostile : "m", i, std::make_shared<model_statistics>()));
  }
  // A model whose config is broken has no series.
  backend.versions.push_back({.model = "broken", .problem = "its config is no TOML"});
  const parsed_metrics metrics(metrics_text(backend, http_counts{}));
  EXPECT_EQ(metrics.values_of("model"), (std::set<std::string>{hostile, "m"}));
  EXPECT_EQ(metrics.values_of("version"), (std::set<std::string>{"0", "1", "2"}));
  EXPECT_EQ(metrics.label_names(), (std::set<std::string>{"le", "model", "reason", "version"}));
}

}  // namespace
}  // namespace sluice::service
