// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "tools/sluice/bench/conditions.hpp"
#include "tools/sluice/session.hpp"

#include <sluice/operations/operation.hpp>

#include <nlohmann/json.hpp>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <functional>
#include <string>
#include <vector>

namespace sluice::cli {

using clock = std::chrono::steady_clock;

inline constexpr std::size_t bench_in_flight = 64;  // requests of one client

inline double microseconds_since(clock::time_point begun) {
  return std::chrono::duration<double, std::micro>(clock::now() - begun).count();
}

/// Measured times, in microseconds.
class times {
 public:
  void add(double microseconds) { all_.push_back(microseconds); }
  /// The quantile `part` of the times, from 0 to 1.
  [[nodiscard]] double quantile(double part) const {
    auto sorted = all_;
    std::sort(sorted.begin(), sorted.end());
    return sorted[static_cast<std::size_t>(part * static_cast<double>(sorted.size() - 1))];
  }
  [[nodiscard]] double median() const { return quantile(0.5); }

 private:
  std::vector<double> all_;
};

/// What a mode of `sluice bench` has measured.
struct bench_report {
  std::string library;          ///< name and version of the library that computes
  nlohmann::ordered_json json;  ///< an object
  std::string table;            ///< lines of text
};

/// The library that computes an operation, with its version if it tells one: "OpenBLAS 0.3.21".
inline std::string library_of(const operation_row& row, session& current) {
  const auto kind = current.device().service().device().id().kind;
  const auto version = row.version(kind);
  return std::string(row.library(kind)) + (version.empty() ? "" : ' ' + version);
}

/// The median and the 99th percentile.
inline nlohmann::ordered_json json_of(const times& t) {
  return {{"median_us", t.median()}, {"p99_us", t.quantile(0.99)}};
}

/// The options of a mode.
struct bench_settings {
  int rounds = 20;                    ///< how often everything is measured
  std::vector<std::size_t> lanes{0};  ///< the numbers of lanes to measure with; 0: on demand
  /// The options of a device with so many lanes of each actor.
  std::function<device_service_options(std::size_t lanes)> service{};
  bench_conditions* conditions = nullptr;  ///< what the mode notes beside its figures
};

/// The modes. @throws error the error of a reply
///@{
/// Requests on the host device beside the same library calls in a plain loop.
[[nodiscard]] bench_report bench_host(session& current, const bench_settings& settings);
/// A client of the blas actor that has one request in flight, alone and beside a hostile client.
[[nodiscard]] bench_report bench_hostile(session& current, const bench_settings& settings);
/// The times of requests that are sent at half of the highest rate, and beside a flood.
[[nodiscard]] bench_report bench_latency(session& current, const bench_settings& settings);
/// Requests to the mel service.
[[nodiscard]] bench_report bench_mel(session& current, const bench_settings& settings);
/// Allocations by several threads, beside calls of the driver.
[[nodiscard]] bench_report bench_memory(session& current, const bench_settings& settings);
/// What a request costs beside plain calls of its library.
[[nodiscard]] bench_report bench_overhead(session& current, const bench_settings& settings);
/// Runs of programs beside plain calls of the same operations.
[[nodiscard]] bench_report bench_programs(session& current, const bench_settings& settings);
/// Products on all lanes, beside plain library calls of as many threads.
[[nodiscard]] bench_report bench_scaling(session& current, const bench_settings& settings);
/// Large transfers from and to the host, beside copies of the driver.
[[nodiscard]] bench_report bench_transfer(session& current, const bench_settings& settings);
/// Many small products at once, beside plain library calls.
[[nodiscard]] bench_report bench_throughput(session& current, const bench_settings& settings);
///@}

/// The medians over the rounds of a mode, each of which has measured many times.
class rounds {
 public:
  void add(const times& t) {
    medians_.add(t.median());
    p99_.add(t.quantile(0.99));
  }
  [[nodiscard]] double median() const { return medians_.median(); }
  [[nodiscard]] double p99() const { return p99_.median(); }
  [[nodiscard]] nlohmann::ordered_json json() const {
    return {{"median_us", median()}, {"p99_us", p99()}};
  }

 private:
  times medians_;
  times p99_;
};

}  // namespace sluice::cli
