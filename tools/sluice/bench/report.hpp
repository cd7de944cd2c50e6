// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "tools/io/bar_chart.hpp"
#include "tools/sluice/spread.hpp"

#include <nlohmann/json.hpp>

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace sluice::cli {

/// How many times as fast a way of work is as another one.
struct comparison {
  std::string name;  ///< of the other way
  spread ratio;
};

/// The latency of the requests of a row, in microseconds: the medians over the rounds.
struct row_latency {
  double median = 0;
  double p99 = 0;
  double p90 = 0;   ///< 0: not measured
  double p999 = 0;  ///< likewise
};

/// A way of work in a section.
struct section_row {
  std::string name;
  spread per_second;                      ///< pieces of work
  comparison reference;                   ///< the row itself if it is a reference
  std::vector<comparison> comparisons{};  ///< further ones
  double mean_batch = 0;                  ///< 0: not counted
  std::optional<row_latency> latency{};   ///< nothing: not measured
  std::uint64_t bytes = 0;                ///< that a piece of work transfers; 0: not counted
};

/// What the text of a section shows of each row.
struct shown_figure {
  const char* unit;
  double pieces_per_second = 0;  ///< of one unit of a rate; 0: microseconds of a piece of work
};
inline constexpr shown_figure shown_times{"us each"};
/// The text of a section has `shown_single_rates` instead if a row does less than one thousand.
inline constexpr shown_figure shown_rates{"thousands a second", 1e3};
inline constexpr shown_figure shown_single_rates{"a second", 1};

/// Ways to do the same work. The first row is the usual reference.
struct report_section {
  std::string path;  ///< in the JSON: "mel/alone"
  std::string title;
  shown_figure shown = shown_rates;
  std::vector<section_row> rows{};
};

/// The latency of requests, in microseconds.
struct latency_row {
  std::string key;   ///< in the JSON
  std::string name;  ///< in the text
  double median = 0;
  double p99 = 0;
};

/// A time that is measured once.
struct time_row {
  std::string key;   ///< in the JSON
  std::string name;  ///< in the text
  double us = 0;
};

/// What a suite of `sluice bench` has measured: each figure is added once, for the text, the JSON
/// and the chart. Not thread-safe.
class bench_report {
 public:
  /// The library that computes, with its version if it has one.
  ///@{
  void set_library(std::string library) { library_ = std::move(library); }
  [[nodiscard]] const std::string& library() const noexcept { return library_; }
  ///@}

  void add(const report_section& section);
  /// Adds a table of latencies, whose keys are in the object `path` of the JSON.
  void add(const std::string& path, const std::string& title,
           const std::vector<latency_row>& latencies);
  /// Adds a table of times that are measured once, likewise.
  void add(const std::string& path, const std::string& title, const std::vector<time_row>& times);
  /// Adds a figure to the JSON alone.
  void add_value(const std::string& path, nlohmann::ordered_json value);
  /// Adds a line to the text alone.
  void add_line(const std::string& line) { text_ += line + '\n'; }

  /// An object.
  [[nodiscard]] const nlohmann::ordered_json& json() const noexcept { return json_; }
  [[nodiscard]] const std::string& text() const noexcept { return text_; }
  /// A panel for each section, with the time of each row and its speed relative to its reference,
  /// and one for each table of latencies. The title is left empty.
  [[nodiscard]] io::bar_chart chart() const;

 private:
  /// Begins a table of the text.
  void begin_table(const std::string& title, const std::string& head);

  std::string library_;
  nlohmann::ordered_json json_ = nlohmann::ordered_json::object();
  std::string text_;
  std::vector<io::bar_panel> panels_;
};

}  // namespace sluice::cli
