// SPDX-License-Identifier: Apache-2.0
#include "tools/sluice/bench/report.hpp"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace sluice::cli {
namespace {

using nlohmann::ordered_json;

spread around(double median) {
  return {median, median / 2, 2 * median};
}

section_row row(const std::string& name, const std::string& reference, double us, double ratio) {
  return {name, around(1e6 / us), {reference, around(ratio)}};
}

/// Rows that are compared with the first one, with another one, and with two.
report_section section_of_calls() {
  report_section section{"mel/alone", "sgemm(64), one at a time", shown_times};
  section.rows = {row("calls", "calls", 10, 1), row("requests", "calls", 20, 0.5),
                  row("traced", "requests", 40, 0.25)};
  section.rows[1].mean_batch = 12;
  section.rows[2].comparisons = {{"calls", around(0.125)}};
  return section;
}

void expect_words(const std::string& text, const std::vector<std::string>& words) {
  for (const auto& word : words) EXPECT_NE(text.find(word), std::string::npos) << text << word;
}

void expect_bar(const io::bar& found, double value, double low, double high) {
  EXPECT_DOUBLE_EQ(found.value, value);
  EXPECT_DOUBLE_EQ(found.low, low);
  EXPECT_DOUBLE_EQ(found.high, high);
}

TEST(bench_report, has_a_section_in_its_json) {
  bench_report report;
  report.add(section_of_calls());
  const auto& rows = report.json().at("mel").at("alone");
  ASSERT_EQ(rows.size(), 3U);
  EXPECT_EQ(rows[1].at("name"), "requests");
  EXPECT_EQ(rows[1].at("reference"), "calls");
  EXPECT_EQ(rows[1].at("us"), ordered_json({{"median", 20.0}, {"p5", 10.0}, {"p95", 40.0}}));
  EXPECT_EQ(rows[1].at("ratio"), ordered_json({{"median", 0.5}, {"p5", 0.25}, {"p95", 1.0}}));
  EXPECT_EQ(rows[1].at("time_ratio"), ordered_json({{"median", 2.0}, {"p5", 1.0}, {"p95", 4.0}}));
  EXPECT_EQ(rows[1].at("mean_batch"), 12.0);
  EXPECT_FALSE(rows[1].contains("beside"));
  EXPECT_FALSE(rows[2].contains("mean_batch"));
  EXPECT_EQ(rows[2].at("beside")[0].at("name"), "calls");
  EXPECT_EQ(rows[2].at("beside")[0].at("time_ratio").at("median"), 8.0);
}

TEST(bench_report, has_sections_in_arrays) {
  bench_report report;
  for (const char* const number : {"0", "1"}) {
    const auto path = "scaling/" + std::string(number);
    report.add_value(path + "/lanes", 1);
    auto section = section_of_calls();
    section.path = path + "/sgemm_64";
    report.add(section);
  }
  ASSERT_TRUE(report.json().at("scaling").is_array());
  EXPECT_EQ(report.json().at("scaling").size(), 2U);
  EXPECT_TRUE(report.json().at("scaling")[1].at("sgemm_64").is_array());
}

TEST(bench_report, has_a_section_as_text) {
  bench_report report;
  auto section = section_of_calls();
  report.add(section);
  expect_words(report.text(), {"sgemm(64), one at a time\n", "us each", "times as long",
                               "20.0 (10.0 - 40.0)", "2.00 (1.00 - 4.00)", "mean batch",
                               "      ratio to requests\n", "    beside calls"});
  EXPECT_EQ(report.text().find("ratio to calls"), std::string::npos) << report.text();

  bench_report of_rates;
  section.shown = shown_rates;
  of_rates.add(section);
  expect_words(of_rates.text(), {"thousands a second", "times as fast", "50.0 (25.0 - 100)",
                                 "0.500 (0.250 - 1.00)"});

  bench_report of_slow_rates;
  section.rows = {row("calls", "calls", 10, 1), row("requests", "calls", 25641, 0.5)};
  of_slow_rates.add(section);
  expect_words(of_slow_rates.text(),
               {" a second", "100000 (50000 - 200000)", "39.0 (19.5 - 78.0)"});
  EXPECT_EQ(of_slow_rates.text().find("thousands"), std::string::npos) << of_slow_rates.text();
}

TEST(bench_report, has_a_section_as_a_panel) {
  bench_report report;
  report.add(section_of_calls());
  const auto chart = report.chart();
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
  expect_words(chart.lines.at(0), {"5th to 95th percentile"});
}

TEST(bench_report, has_latencies) {
  bench_report report;
  report.add("sgemm_64", "sgemm(64)",
             {{"alone", "one at a time", 8, 30}, {"beside", "beside a flood", 16, 60}});
  report.add_value("sgemm_64/ratio", 2);
  report.add_line("and a line");
  EXPECT_EQ(report.json().at("sgemm_64").at("beside"),
            ordered_json({{"median_us", 16.0}, {"p99_us", 60.0}}));
  EXPECT_EQ(report.json().at("sgemm_64").at("ratio"), 2);
  expect_words(report.text(),
               {"sgemm(64)\n", "median", "p99", "16.0 us", "60.0 us", "\nand a line\n"});
  const auto chart = report.chart();
  ASSERT_EQ(chart.panels.size(), 1U);
  EXPECT_EQ(chart.panels[0].units, (std::vector<std::string>{"latency (us)"}));
  EXPECT_EQ(chart.panels[0].rows.at(1).label, "beside a flood");
  expect_bar(chart.panels[0].rows.at(1).bars.at(0), 16, 16, 60);
  expect_words(chart.lines.at(0), {"99th percentile"});
}

TEST(bench_report, has_latencies_of_rows) {
  bench_report report;
  auto section = section_of_calls();
  section.rows[1].latency = {25, 75};
  report.add(section);
  const auto& rows = report.json().at("mel").at("alone");
  EXPECT_EQ(rows[1].at("latency"), ordered_json({{"median_us", 25.0}, {"p99_us", 75.0}}));
  EXPECT_FALSE(rows[0].contains("latency"));
  expect_words(report.text(), {"    latency: median 25.0, p99 75.0 us"});
}

TEST(bench_report, has_times_that_are_measured_once) {
  bench_report report;
  report.add("model/first", "The first answer",
             std::vector<time_row>{{"open_us", "reading", 1500}, {"run_us", "a run", 250}});
  EXPECT_EQ(report.json().at("model").at("first"),
            ordered_json({{"open_us", 1500.0}, {"run_us", 250.0}}));
  expect_words(report.text(), {"The first answer\n", "reading", "1.50 ms", "0.250 ms"});
  const auto chart = report.chart();
  ASSERT_EQ(chart.panels.size(), 1U);
  expect_bar(chart.panels[0].rows.at(0).bars.at(0), 1.5, 1.5, 1.5);
}

TEST(bench_report, without_figures_has_no_panels) {
  EXPECT_TRUE(bench_report().chart().panels.empty());
}

}  // namespace
}  // namespace sluice::cli
