// SPDX-License-Identifier: Apache-2.0
#include "tools/sluice/bench/service/service_rounds.hpp"

#include "tools/sluice/spread.hpp"

#include <sluice/runtime/error.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <numeric>

namespace sluice::cli {

namespace {

std::string errors_of(const std::string& name, const std::map<std::string, std::uint64_t>& errors) {
  std::uint64_t sum = 0;
  std::string kinds;
  for (const auto& [text, count] : errors) {
    sum += count;
    kinds += fmt::format("{}{} x {}", kinds.empty() ? "" : "; ", count, text);
  }
  return fmt::format("{}: {} request{} failed: {}", name, sum, sum == 1 ? "" : "s", kinds);
}

/// The medians over the rounds.
row_latency medians_over_rounds(const std::vector<row_latency>& rounds) {
  const auto median = [&](double row_latency::*percentile) {
    std::vector<double> numbers;
    numbers.reserve(rounds.size());
    for (const auto& round : rounds) numbers.push_back(round.*percentile);
    return quantile(std::move(numbers), 0.5);
  };
  return {median(&row_latency::median), median(&row_latency::p99), median(&row_latency::p90),
          median(&row_latency::p999)};
}

row_latency percentiles(std::vector<double> latencies) {
  std::sort(latencies.begin(), latencies.end());
  return {quantile(latencies, 0.5), quantile(latencies, 0.99), quantile(latencies, 0.9),
          quantile(latencies, 0.999)};
}

}  // namespace

void service_rounds::measure(std::size_t rounds, std::chrono::steady_clock::duration time,
                             std::mt19937_64& source) {
  measure_round(std::min<std::chrono::steady_clock::duration>(time, std::chrono::seconds(1)),
                source, false);
  for (std::size_t round = 0; round < rounds; ++round) measure_round(time, source, true);
}

void service_rounds::measure_round(std::chrono::steady_clock::duration time,
                                   std::mt19937_64& source, bool counts) {
  std::vector<rounds_of_server*> order;
  for (auto& row : servers_) order.push_back(&row);
  std::shuffle(order.begin(), order.end(), source);
  for (auto* const row : order) {
    auto load = row->server.load(time);
    for (const auto& [text, count] : load.errors) row->errors[text] += count;
    if (load.latencies.empty())
      throw error(errc::library_failure, errors_of(row->server.name, row->errors));
    if (!counts) continue;
    row->rates.push_back(static_cast<double>(load.latencies.size()) /
                         std::chrono::duration<double>(load.time).count());
    row->latencies.push_back(percentiles(std::move(load.latencies)));
  }
}

comparison service_rounds::compare(const rounds_of_server& row, std::size_t reference) const {
  const auto& other = servers_[reference];
  std::vector<double> ratios;
  for (std::size_t i = 0; i < row.rates.size(); ++i)
    ratios.push_back(row.rates[i] / other.rates[i]);
  return {other.server.name, spread_of(ratios)};
}

void service_rounds::add_to(bench_report& report, const std::string& title) const {
  report_section section{"service/rates", title, shown_single_rates};
  for (const auto& row : servers_) {
    section_row figures{row.server.name, spread_of(row.rates), compare(row, row.server.reference)};
    if (row.server.echo) figures.comparisons.push_back(compare(row, *row.server.echo));
    figures.latency = medians_over_rounds(row.latencies);
    figures.bytes = row.server.bytes;
    section.rows.push_back(std::move(figures));
  }
  report.add(section);
  for (const auto& row : servers_) {
    if (!row.server.echo) continue;
    const auto& echo = servers_[*row.server.echo];
    std::vector<double> differences;
    for (std::size_t i = 0; i < row.latencies.size(); ++i)
      differences.push_back(row.latencies[i].median - echo.latencies[i].median);
    const auto over = spread_of(differences);
    report.add_line(fmt::format("  {} takes {:.1f} us longer than {} ({:.1f} - {:.1f}), by medians",
                                row.server.name, over.median, echo.server.name, over.low,
                                over.high));
    report.add_value("service/us_over_echo",
                     {{"median", over.median}, {"p5", over.low}, {"p95", over.high}});
  }
}

std::string service_rounds::errors_text() const {
  std::string text;
  for (const auto& row : servers_) {
    if (row.errors.empty()) continue;
    text += (text.empty() ? "" : "; ") + errors_of(row.server.name, row.errors);
  }
  return text;
}

}  // namespace sluice::cli
