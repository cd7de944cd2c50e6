// SPDX-License-Identifier: Apache-2.0
#include "tools/sluice/trace_picture.hpp"

#include "tests/support/expect_error.hpp"

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include <string>

namespace sluice::cli {
namespace {

using nlohmann::json;

/// A slice as `chrome_trace` writes it, with times in microseconds.
json slice(const std::string& category, const std::string& name, int stream, double begin,
           double length, int batch = 1) {
  json arguments = json::object();
  if (batch != 1) arguments["batch"] = batch;
  return {{"ph", "X"},     {"cat", category}, {"name", name},  {"pid", 2},
          {"tid", stream}, {"ts", begin},     {"dur", length}, {"args", arguments}};
}

TEST(TracePicture, HasARowOfLaunchesAndOneOfStepsForEachStream) {
  json events = json::array();
  events.push_back({{"ph", "M"}, {"name", "process_name"}, {"pid", 2}});
  events.push_back(slice("launch", "program", 1, 100, 30));
  events.push_back(slice("step", "frames", 1, 100, 10));
  events.push_back(slice("step", "fft", 1, 110, 20));
  events.push_back(slice("enqueue", "enqueue program", 7, 90, 5));
  events.push_back(slice("launch", "gemm", 2, 120, 30));
  const auto view = trace_part(events.dump());
  ASSERT_EQ(view.rows.size(), 3U);
  EXPECT_EQ(view.rows[0].spans.at(0).label, "program");
  EXPECT_DOUBLE_EQ(view.rows[0].spans.at(0).begin, 100e-6);
  EXPECT_DOUBLE_EQ(view.rows[0].spans.at(0).end, 130e-6);
  ASSERT_EQ(view.rows[1].spans.size(), 2U);
  EXPECT_EQ(view.rows[1].spans[1].label, "fft");
  EXPECT_EQ(view.rows[2].spans.at(0).label, "gemm");
}

TEST(TracePicture, ShowsTheLargestBatchAsOneBox) {
  json events = json::array();
  for (int i = 0; i < 100; ++i) events.push_back(slice("launch", "alone", 1, i * 10, 5));
  events.push_back(slice("launch", "member", 1, 1000, 8, 3));
  for (int i = 0; i < 2; ++i) events.push_back(slice("launch", "member", 1, 1008, 0, 3));
  for (int i = 0; i < 100; ++i) events.push_back(slice("launch", "alone", 1, 1010 + i * 10, 5));
  const auto view = trace_part(events.dump());
  ASSERT_EQ(view.rows.size(), 1U);
  const auto& spans = view.rows[0].spans;
  ASSERT_EQ(spans.size(), 8U);
  EXPECT_EQ(spans[0].label, "3 x member");
  EXPECT_DOUBLE_EQ(spans[0].end, 1008e-6);
  EXPECT_EQ(spans[1].label, "alone");
}

TEST(TracePicture, ShowsTheEndOfATraceWithoutBatches) {
  json events = json::array();
  for (int i = 0; i < 100; ++i) events.push_back(slice("launch", std::to_string(i), 1, i * 10, 5));
  const auto view = trace_part(events.dump());
  EXPECT_EQ(view.rows.at(0).spans.back().label, "99");
  EXPECT_EQ(view.rows.at(0).spans.size(), 8U);
}

TEST(TracePicture, NeedsALaunch) {
  EXPECT_TRUE(test::throws(errc::invalid_argument, "--trace", [] { (void)trace_part("[]"); }));
}

}  // namespace
}  // namespace sluice::cli
