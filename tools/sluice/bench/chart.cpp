// SPDX-License-Identifier: Apache-2.0
#include "tools/sluice/bench/chart.hpp"

#include <algorithm>
#include <map>
#include <string>
#include <utility>

namespace sluice::cli {

namespace {

using json = nlohmann::ordered_json;

/// A key of the report as text: "one at a time".
std::string text_of(std::string key) {
  std::replace(key.begin(), key.end(), '_', ' ');
  return key;
}

/// The title of a part of the report, by its key: "sgemm(64)" for "sgemm_64".
std::string title_of(const std::string& key) {
  static const std::map<std::string, std::string> titles{
      {"allocations", "allocation and release"},
      {"alone", "one at a time"},
      {"in_a_row", "sgemm(64), 64 in flight"},
      {"many_mel", "many mel spectrograms"},
      {"mel", "mel spectrogram"},
      {"one_at_a_time", "sgemm(64), one at a time"},
      {"pipelined", "64 in flight"},
      {"sgemm_16_shapes", "sgemm of 16 shapes"},
      {"small", "eight small steps"},
      {"transfers", "transfers, for each MiB"}};
  if (const auto found = titles.find(key); found != titles.end()) return found->second;
  const auto size = key.find_last_not_of("0123456789") + 1;
  if (size < 2 || size == key.size() || key[size - 1] != '_') return text_of(key);
  return text_of(key.substr(0, size - 1)) + '(' + key.substr(size) + ')';
}

bool is_section(const json& part) {
  return part.is_array() && !part.empty() && part.front().contains("us");
}

bool is_latency(const json& part) {
  return part.is_object() && part.contains("median_us");
}

io::bar bar_of(const json& figure) {
  return {figure.at("median").get<double>(), figure.at("p5").get<double>(),
          figure.at("p95").get<double>()};
}

io::bar_panel panel_of(std::string title, const json& section) {
  io::bar_panel panel{std::move(title), {"time of each (us)", "times as fast"}, {}};
  const auto usual_reference = section.front().at("name").get<std::string>();
  for (const auto& row : section) {
    const auto name = row.at("name").get<std::string>();
    const auto reference = row.at("reference").get<std::string>();
    const bool is_reference = reference == name;
    panel.rows.push_back(
        {.label = name,
         .note = is_reference || reference == usual_reference ? "" : "compared with " + reference,
         .is_reference = is_reference,
         .bars = {bar_of(row.at("us")), bar_of(row.at("ratio"))}});
  }
  return panel;
}

/// Adds the panels of an object of the report, whose title is `title`.
void add_panels(io::bar_chart& chart, const std::string& title, const json& object) {
  const auto join = [&](const std::string& part) {
    return title.empty() ? part : title + ", " + part;
  };
  io::bar_panel latencies{title, {"latency (us)"}, {}};
  for (const auto& [key, value] : object.items()) {
    if (is_section(value)) {
      chart.panels.push_back(panel_of(join(title_of(key)), value));
    } else if (is_latency(value)) {
      const auto median = value.at("median_us").get<double>();
      latencies.rows.push_back(
          {.label = text_of(key), .bars = {{median, median, value.at("p99_us").get<double>()}}});
    } else if (value.is_object()) {
      add_panels(chart, join(title_of(key)), value);
    } else if (value.is_array()) {
      // An object for each number of lanes.
      for (const auto& element : value)
        if (element.contains("lanes"))
          add_panels(chart, join("lanes: " + element.at("lanes").dump()), element);
    }
  }
  if (!latencies.rows.empty()) chart.panels.push_back(std::move(latencies));
}

}  // namespace

io::bar_chart chart_of(const nlohmann::ordered_json& report) {
  io::bar_chart chart;
  add_panels(chart, "", report);
  const bool has_sections = std::any_of(chart.panels.begin(), chart.panels.end(),
                                        [](const auto& panel) { return panel.units.size() > 1; });
  chart.lines = {
      has_sections
          ? "Bars: medians over the rounds. Lines: 5th to 95th percentile. Grey: references; "
            "a row without a note is compared with the first."
          : "Bars: medians. Lines: up to the 99th percentile."};
  return chart;
}

}  // namespace sluice::cli
