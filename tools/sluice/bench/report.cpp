// SPDX-License-Identifier: Apache-2.0
#include "tools/sluice/bench/report.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <string_view>

namespace sluice::cli {
namespace {

using nlohmann::ordered_json;

spread inverse(double dividend, const spread& s) {
  return {dividend / s.median, dividend / s.high, dividend / s.low};
}

ordered_json json_of(const spread& s) {
  return {{"median", s.median}, {"p5", s.low}, {"p95", s.high}};
}

ordered_json json_of(const section_row& row) {
  ordered_json object = {{"name", row.name},
                         {"reference", row.reference.name},
                         {"per_second", json_of(row.per_second)},
                         {"us", json_of(inverse(1e6, row.per_second))},
                         {"ratio", json_of(row.reference.ratio)},
                         {"time_ratio", json_of(inverse(1, row.reference.ratio))}};
  if (row.mean_batch != 0) object["mean_batch"] = row.mean_batch;
  if (row.latency) {
    object["latency"] = {{"median_us", row.latency->median}, {"p99_us", row.latency->p99}};
    if (row.latency->p90 != 0) object["latency"]["p90_us"] = row.latency->p90;
    if (row.latency->p999 != 0) object["latency"]["p999_us"] = row.latency->p999;
  }
  if (row.bytes != 0) {
    object["bytes"] = row.bytes;
    object["megabytes_per_second"] = row.per_second.median * static_cast<double>(row.bytes) / 1e6;
  }
  for (const auto& other : row.comparisons) {
    object["beside"].push_back({{"name", other.name},
                                {"ratio", json_of(other.ratio)},
                                {"time_ratio", json_of(inverse(1, other.ratio))}});
  }
  return object;
}

/// What to show of a section: single pieces where a row does fewer than a thousand a second.
shown_figure figure_of(const report_section& section) {
  const auto& shown = section.shown;
  const bool is_slow = std::any_of(section.rows.begin(), section.rows.end(), [&](const auto& row) {
    return row.per_second.median < shown.pieces_per_second;
  });
  return std::string_view(shown.unit) == shown_rates.unit && is_slow ? shown_single_rates : shown;
}

/// With three digits, or all of those before the point.
std::string text_of(double value) {
  const int digits = value >= 100 ? 0 : value >= 10 ? 1 : value >= 1 ? 2 : 3;
  return fmt::format("{:.{}f}", value, digits);
}

std::string text_of(const spread& s) {
  return fmt::format("{} ({} - {})", text_of(s.median), text_of(s.low), text_of(s.high));
}

std::string line(const std::string& name, const std::string& first, const std::string& second) {
  return fmt::format("  {:<52}  {:>24}  {:>20}\n", name, first, second);
}

std::string percentiles_text(const row_latency& latency) {
  const auto p90 = latency.p90 == 0 ? "" : fmt::format("p90 {}, ", text_of(latency.p90));
  const auto p999 = latency.p999 == 0 ? "" : fmt::format(", p99.9 {}", text_of(latency.p999));
  return fmt::format("    latency: median {}, {}p99 {}{} us", text_of(latency.median), p90,
                     text_of(latency.p99), p999);
}

std::string text_of(const section_row& row, const shown_figure& shown,
                    const std::string& usual_reference) {
  const auto units = shown.pieces_per_second;
  const auto& rate = row.per_second;
  const auto figure = units == 0 ? inverse(1e6, rate)
                                 : spread{rate.median / units, rate.low / units, rate.high / units};
  const auto ratio = [&](const comparison& other) {
    return text_of(units == 0 ? inverse(1, other.ratio) : other.ratio);
  };
  std::string text = line(row.name, text_of(figure), ratio(row.reference));
  if (row.reference.name != usual_reference && row.reference.name != row.name) {
    text += fmt::format("      ratio to {}\n", row.reference.name);
  }
  if (row.mean_batch != 0) text += line("    mean batch", text_of(row.mean_batch), "");
  if (row.latency) text += line(percentiles_text(*row.latency), "", "");
  if (row.bytes != 0) {
    const auto megabytes = rate.median * static_cast<double>(row.bytes) / 1e6;
    text += line("    MB/s, to and from", text_of(megabytes), "");
  }
  for (const auto& other : row.comparisons)
    text += line("    beside " + other.name, "", ratio(other));
  return text;
}

io::bar bar_of(const spread& s) {
  return {s.median, s.low, s.high};
}

io::bar_panel panel_of(const report_section& section) {
  io::bar_panel panel{section.title, {"time of each (us)", "times as fast"}, {}};
  for (const auto& row : section.rows) {
    const auto& reference = row.reference.name;
    const bool is_reference = reference == row.name;
    const bool is_usual = is_reference || reference == section.rows.front().name;
    panel.rows.push_back(
        {.label = row.name,
         .note = is_usual ? "" : "compared with " + reference,
         .is_reference = is_reference,
         .bars = {bar_of(inverse(1e6, row.per_second)), bar_of(row.reference.ratio)}});
  }
  return panel;
}

}  // namespace

void bench_report::begin_table(const std::string& title, const std::string& head) {
  if (!text_.empty()) text_ += '\n';
  text_ += title + '\n' + head;
}

void bench_report::add(const report_section& section) {
  auto rows = nlohmann::ordered_json::array();
  const auto shown = figure_of(section);
  begin_table(section.title,
              line("median (5th - 95th percentile) of the rounds", shown.unit,
                   shown.pieces_per_second == 0 ? "times as long" : "times as fast"));
  for (const auto& row : section.rows) {
    rows.push_back(json_of(row));
    text_ += text_of(row, shown, section.rows.front().name);
  }
  add_value(section.path, std::move(rows));
  panels_.push_back(panel_of(section));
}

void bench_report::add(const std::string& path, const std::string& title,
                       const std::vector<latency_row>& latencies) {
  begin_table(title, line("", "median", "p99"));
  io::bar_panel panel{title, {"latency (us)"}, {}};
  for (const auto& [key, name, median, p99] : latencies) {
    text_ += line(name, fmt::format("{:.1f} us", median), fmt::format("{:.1f} us", p99));
    add_value(path + '/' + key, {{"median_us", median}, {"p99_us", p99}});
    panel.rows.push_back({.label = name, .bars = {{median, median, p99}}});
  }
  panels_.push_back(std::move(panel));
}

void bench_report::add(const std::string& path, const std::string& title,
                       const std::vector<time_row>& times) {
  begin_table(title, "");
  io::bar_panel panel{title, {"time (ms)"}, {}};
  for (const auto& [key, name, us] : times) {
    const auto ms = us / 1000;
    text_ += line(name, text_of(ms) + " ms", "");
    add_value(path + '/' + key, us);
    panel.rows.push_back({.label = name, .bars = {{ms, ms, ms}}});
  }
  panels_.push_back(std::move(panel));
}

void bench_report::add_value(const std::string& path, nlohmann::ordered_json value) {
  json_[nlohmann::ordered_json::json_pointer('/' + path)] = std::move(value);
}

io::bar_chart bench_report::chart() const {
  const bool has_sections = std::any_of(panels_.begin(), panels_.end(),
                                        [](const auto& panel) { return panel.units.size() > 1; });
  return {.title = {},
          .lines = {has_sections
                        ? "Bars: medians over the rounds. Lines: 5th to 95th percentile. Grey: "
                          "references; a row without a note is compared with the first."
                        : "Bars: medians. Lines: up to the 99th percentile."},
          .panels = panels_};
}

}  // namespace sluice::cli
