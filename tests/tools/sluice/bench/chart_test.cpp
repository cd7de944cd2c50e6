// SPDX-License-Identifier: Apache-2.0
#include "tools/sluice/bench/chart.hpp"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace sluice::cli {
namespace {

using json = nlohmann::ordered_json;

json figure(double median) {
  return {{"median", median}, {"p5", median / 2}, {"p95", 2 * median}};
}

json row(const std::string& name, const std::string& reference, double us, double ratio) {
  return {{"name", name},       {"reference", reference},     {"per_second", figure(1e6 / us)},
          {"us", figure(us)},   {"ratio", figure(ratio)},     {"time_ratio", figure(1 / ratio)},
          {"mean_batch", 12.0}, {"beside", {{{"name", "x"}}}}};
}

void expect_bar(const io::bar& found, double value, double low, double high) {
  EXPECT_EQ(found.value, value);
  EXPECT_EQ(found.low, low);
  EXPECT_EQ(found.high, high);
}

TEST(BenchChart, ASectionIsAPanel) {
  const auto chart = chart_of({{"mebibytes", 64},
                               {"one_at_a_time",
                                {row("calls", "calls", 10, 1), row("requests", "calls", 20, 0.5),
                                 row("traced", "requests", 40, 0.25)}}});
  ASSERT_EQ(chart.panels.size(), 1U);
  const auto& panel = chart.panels[0];
  EXPECT_EQ(panel.title, "sgemm(64), one at a time");
  EXPECT_EQ(panel.units, (std::vector<std::string>{"time of each (us)", "times as fast"}));
  ASSERT_EQ(panel.rows.size(), 3U);
  EXPECT_EQ(panel.rows[1].label, "requests");
  EXPECT_TRUE(panel.rows[0].is_reference);
  EXPECT_FALSE(panel.rows[1].is_reference);
  EXPECT_EQ(panel.rows[1].note, "");
  EXPECT_EQ(panel.rows[2].note, "compared with requests");
  expect_bar(panel.rows[1].bars.at(0), 20, 10, 40);
  expect_bar(panel.rows[1].bars.at(1), 0.5, 0.25, 1);
  ASSERT_EQ(chart.lines.size(), 1U);
  EXPECT_NE(chart.lines[0].find("5th to 95th percentile"), std::string::npos);
}

TEST(BenchChart, LatenciesOfAnObjectAreAPanel) {
  const json latency = {{"median_us", 8.0}, {"p99_us", 30.0}};
  const auto chart = chart_of({{"sgemm_64",
                                {{"alone", latency},
                                 {"beside_a_flood", latency},
                                 {"p99_ratio_beside_a_flood", 3.0},
                                 {"ratio", {{"median", 1.0}, {"p99", 2.0}}}}},
                               {"hostile", {{"in_flight", 64}, {"replies", {{"ok", 5}}}}}});
  ASSERT_EQ(chart.panels.size(), 1U);
  const auto& panel = chart.panels[0];
  EXPECT_EQ(panel.title, "sgemm(64)");
  EXPECT_EQ(panel.units, (std::vector<std::string>{"latency (us)"}));
  ASSERT_EQ(panel.rows.size(), 2U);
  EXPECT_EQ(panel.rows[1].label, "beside a flood");
  expect_bar(panel.rows[1].bars.at(0), 8, 8, 30);
  EXPECT_NE(chart.lines.at(0).find("99th percentile"), std::string::npos);
}

TEST(BenchChart, PanelsAreNamedByTheirPlace) {
  const auto section = json::array({row("calls", "calls", 10, 1)});
  const auto chart =
      chart_of({{"mel", {{"alone", section}, {"pipelined", section}}},
                {"rfft_1024", section},
                {"new_key_2b", section},
                {"7", section},
                {"others", {{{"x", section}}}},
                {"scaling",
                 {{{"lanes", 1}, {"sgemm_64", section}}, {{"lanes", 2}, {"sgemm_64", section}}}}});
  std::vector<std::string> titles;
  for (const auto& panel : chart.panels) titles.push_back(panel.title);
  EXPECT_EQ(titles,
            (std::vector<std::string>{"mel spectrogram, one at a time",
                                      "mel spectrogram, 64 in flight", "rfft(1024)", "new key 2b",
                                      "7", "lanes: 1, sgemm(64)", "lanes: 2, sgemm(64)"}));
}

TEST(BenchChart, AReportWithoutRowsHasNoPanels) {
  EXPECT_TRUE(chart_of(json::object()).panels.empty());
  EXPECT_TRUE(chart_of({{"mel", {{"seconds", 10}, {"list", {1, 2}}, {"none", json::array()}}}})
                  .panels.empty());
}

}  // namespace
}  // namespace sluice::cli
