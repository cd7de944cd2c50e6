// SPDX-License-Identifier: Apache-2.0
#include "service/metrics/statistics_json.hpp"

#include "service/metrics/status_json.hpp"
#include "service/protocol/request_error.hpp"

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <chrono>
#include <memory>
#include <string>

namespace sluice::service {
namespace {

using nlohmann::json;
using std::chrono::nanoseconds;

constexpr const char* hostile = "<script>alert(1)</script>\"\n\xff";

/// Two versions of m, one of another model, and a model without versions.
backend_status some_models() {
  const auto statistics = std::make_shared<model_statistics>();
  for (int i = 0; i < 4; ++i) {
    statistics->begin();
    statistics->succeed(nanoseconds(1000), {.queue_ns = 100, .compute_ns = 700, .batch = 2}, 3);
  }
  statistics->begin();
  statistics->fail(nanoseconds(50));
  return {.versions = {
              {.model = "m", .version = 1, .state = serving_state::ready, .statistics = statistics},
              {.model = "m",
               .version = 22,
               .state = serving_state::loading,
               .statistics = std::make_shared<model_statistics>()},
              {.model = hostile,
               .version = 1,
               .state = serving_state::unavailable,
               .problem = hostile,
               .statistics = std::make_shared<model_statistics>()},
              {.model = "broken", .problem = "its config is no TOML"}}};
}

TEST(statistics_json, is_that_of_the_extension) {
  const auto text = json::parse(statistics_json(some_models(), "m", "1"));
  ASSERT_EQ(text.at("model_stats").size(), 1U);
  auto stats = text.at("model_stats").at(0);
  EXPECT_GT(stats.at("last_inference").get<std::uint64_t>(), 1'600'000'000'000U);
  stats.erase("last_inference");
  EXPECT_EQ(stats, json::parse(R"({
    "name": "m", "version": "1", "inference_count": 12, "execution_count": 2,
    "inference_stats": {
      "success": {"count": 4, "ns": 4000}, "fail": {"count": 1, "ns": 50},
      "queue": {"count": 4, "ns": 400}, "compute_input": {"count": 4, "ns": 0},
      "compute_infer": {"count": 4, "ns": 2800}, "compute_output": {"count": 4, "ns": 0},
      "cache_hit": {"count": 0, "ns": 0}, "cache_miss": {"count": 0, "ns": 0}},
    "batch_stats": [{"batch_size": 2, "compute_input": {"count": 2, "ns": 0},
      "compute_infer": {"count": 2, "ns": 1400}, "compute_output": {"count": 2, "ns": 0}}]})"));
}

TEST(statistics_json, has_the_versions_that_are_named) {
  const auto models = some_models();
  const auto count = [&](const char* model, const char* version) {
    return json::parse(statistics_json(models, model, version)).at("model_stats").size();
  };
  EXPECT_EQ(count("", ""), 3U);
  EXPECT_EQ(count("m", ""), 2U);
  EXPECT_EQ(count("m", "22"), 1U);
  EXPECT_EQ(count("broken", ""), 0U);
  EXPECT_EQ(count(hostile, ""), 1U);
  const auto status = [&](const char* model, const char* version) {
    try {
      (void)statistics_json(models, model, version);
    } catch (const request_error& e) {
      return e.status();
    }
    return request_status::internal;
  };
  EXPECT_EQ(status("n", ""), request_status::not_found);
  EXPECT_EQ(status("m", "2"), request_status::not_found);
  EXPECT_EQ(status("m", "01"), request_status::not_found);
  EXPECT_EQ(status("broken", "0"), request_status::not_found);
}

TEST(status_json, is_ascii_and_has_names_as_text) {
  const auto text = status_json(some_models(), http_counts{.replies = {{200, 3}}});
  EXPECT_TRUE(std::all_of(text.begin(), text.end(), [](char c) { return c >= ' ' && c < 0x7f; }));
  const auto parsed = json::parse(text);
  EXPECT_EQ(parsed.at("models").at(0).at("successes"), 4U);
  EXPECT_EQ(parsed.at("models").at(1).at("state"), "loading");
  EXPECT_EQ(parsed.at("models").at(2).at("name"), "<script>alert(1)</script>\"\n\xef\xbf\xbd");
  EXPECT_EQ(parsed.at("models").at(3).at("problem"), "its config is no TOML");
  EXPECT_FALSE(parsed.at("models").at(3).contains("successes"));
  EXPECT_EQ(parsed.at("http").at("replies").at("200"), 3U);
  const auto& histogram = parsed.at("models").at(0).at("device_seconds");
  EXPECT_EQ(histogram.at("bounds").size(), histogram.at("counts").size());
  EXPECT_TRUE(histogram.at("bounds").back().is_null());
  EXPECT_EQ(histogram.at("counts").back(), 4U);
}

}  // namespace
}  // namespace sluice::service
