// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "tools/sluice/bench/conditions.hpp"
#include "tools/sluice/bench/report.hpp"
#include "tools/sluice/session.hpp"

#include <sluice/operations/operation.hpp>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

namespace sluice::cli {

using clock = std::chrono::steady_clock;

inline constexpr std::size_t bench_in_flight = 64;  // requests of one client
inline constexpr std::size_t bench_clients = 4;     // where a row does not say how many
inline constexpr std::size_t operand_sets = 256;    // where the operands take turns

inline double microseconds_since(clock::time_point begun) {
  return std::chrono::duration<double, std::micro>(clock::now() - begun).count();
}

/// Element `i`; after the last one comes the first.
template <class T>
const T& in_turns(const std::vector<T>& all, std::int64_t i) {
  return all[static_cast<std::size_t>(i) % all.size()];
}

/// A run of a suite of `sluice bench`: its options, and what it fills in.
struct bench_run {
  session& current;
  std::size_t rounds;              ///< how often everything is measured
  std::vector<std::size_t> lanes;  ///< the numbers of lanes to measure with; 0: on demand
  /// The options of a device with so many lanes of each actor.
  std::function<device_service_options(std::size_t lanes)> service;
  bench_conditions& conditions;
  bench_report& report;

  [[nodiscard]] device_service& service_of_device() const { return current.device().service(); }
  [[nodiscard]] device_runtime& runtime() const { return service_of_device().runtime(); }
  [[nodiscard]] bool on_host() const {
    return service_of_device().device().id().kind == device_kind::host;
  }

  /// The library that computes an operation, with its version if it has one: "OpenBLAS 0.3.21".
  template <class Operation>
  [[nodiscard]] std::string library_of() const {
    const auto kind = service_of_device().device().id().kind;
    const auto& descriptor = descriptor_of(operation_type<Operation>{});
    const auto version = descriptor.version(kind);
    return std::string(descriptor.library(kind)) + (version.empty() ? "" : ' ' + version);
  }

  /// Calls `measure` in each round of a suite that keeps all rounds.
  template <class Measure>
  void each_round(const Measure& measure) {
    for (std::size_t round = 0; round < rounds; ++round) {
      measure();
      conditions.note();
    }
    conditions.note_rounds(rounds);
  }
};

/// The suites. @throws error the error of a reply; `library_failure` if a result is wrong
///@{
/// Requests on the host device beside the same library calls in a plain loop.
void bench_host(bench_run& run);
/// A client of the blas actor that has one request in flight, alone and beside a hostile client.
void bench_hostile(bench_run& run);
/// The times of requests that are sent at half of the highest rate, and beside a flood.
void bench_latency(bench_run& run);
/// Launches without work, beside bare records of events.
void bench_launch(bench_run& run);
/// Requests to the mel service.
void bench_mel(bench_run& run);
/// Allocations by several threads and from several resources, beside calls of the driver.
void bench_memory(bench_run& run);
/// What a request costs beside plain calls of its library.
void bench_overhead(bench_run& run);
/// Runs of programs beside plain calls of the same operations.
void bench_programs(bench_run& run);
/// Products on all lanes, beside plain library calls of as many threads.
void bench_scaling(bench_run& run);
/// Large transfers from and to the host, beside copies of the driver.
void bench_transfer(bench_run& run);
/// Many small products at once, beside plain library calls.
void bench_throughput(bench_run& run);
///@}

}  // namespace sluice::cli
