// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "tools/sluice/arrays.hpp"
#include "tools/sluice/bench/report.hpp"
#include "tools/sluice/session.hpp"
#include "tools/sluice/spread.hpp"

#include <sluice/operations/operation.hpp>
#include <sluice/runtime/tensor.hpp>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <random>
#include <string>
#include <thread>
#include <utility>
#include <vector>

// The files of the suites rely on the standard headers above.
namespace sluice::cli {

using clock = std::chrono::steady_clock;

inline constexpr std::size_t bench_in_flight = 64;  // requests of one client
inline constexpr std::size_t bench_clients = 4;     // where a row does not say how many
inline constexpr std::size_t operand_sets = 256;    // where the operands take turns

inline double microseconds_since(clock::time_point start) {
  return std::chrono::duration<double, std::micro>(clock::now() - start).count();
}

/// The source of all random numbers. Only for the thread of the suite.
inline std::mt19937_64& random_source() {
  static std::mt19937_64 source{std::random_device()()};
  return source;
}
inline std::vector<float> random_values(std::int64_t count) {
  std::uniform_real_distribution<float> uniform(-1, 1);
  std::vector<float> values(static_cast<std::size_t>(count));
  for (float& value : values) value = uniform(random_source());
  return values;
}
/// A tensor of the device with random numbers from -1 to 1.
inline tensor random_tensor(session& current, const extents& shape) {
  std::int64_t count = 1;
  for (const auto extent : shape) count *= extent;
  return tensor(upload_values(current, random_values(count))).reshape(shape);
}

/// Element `i`; after the last one comes the first.
template <class T>
const T& in_turns(const std::vector<T>& elements, std::int64_t i) {
  return elements[static_cast<std::size_t>(i) % elements.size()];
}

/// `count` results of `make`.
template <class Make>
auto several(std::size_t count, const Make& make) {
  std::vector<decltype(make())> results;
  results.reserve(count);
  for (std::size_t i = 0; i < count; ++i) results.push_back(make());
  return results;
}

/// Calls `work(i)` on `count` threads, and waits until all have returned.
template <class Work>
void on_threads(std::size_t count, const Work& work) {
  std::vector<std::jthread> threads;
  threads.reserve(count);
  for (std::size_t i = 0; i < count; ++i) threads.emplace_back([&work, i] { work(i); });
}

/// The current number of threads of the process, from Linux.
[[nodiscard]] std::size_t threads_of_process();

struct model_bench;

/// A run of a suite of `sluice bench`: its options, and what it fills in.
struct bench_run {
  session& current;
  std::size_t rounds;              ///< how often each section is measured
  std::vector<std::size_t> lanes;  ///< the numbers of lanes to measure with; 0: on demand
  /// The options of a device with so many lanes of each actor.
  std::function<device_service_options(std::size_t lanes)> service;
  bench_report& report;
  const model_bench* model = nullptr;  ///< what the suite `model` measures
  std::size_t measured_rounds = 0;     ///< the sum over all sections
  std::size_t most_threads = 0;        ///< of the process after a round

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

  /// Calls `measure` in each round of a section.
  template <class Measure>
  void each_round(const Measure& measure) {
    for (std::size_t round = 0; round < rounds; ++round) {
      measure();
      most_threads = std::max(most_threads, threads_of_process());
    }
    measured_rounds += rounds;
  }
};

/// The suites, which docs/benchmarks.md describes. @throws error the error of a reply;
/// `library_failure` if a result is wrong
///@{
void bench_host(bench_run& run);
void bench_hostile(bench_run& run);
void bench_latency(bench_run& run);
void bench_launch(bench_run& run);
void bench_mel(bench_run& run);
void bench_memory(bench_run& run);
/// Only if the library that reads models is built.
void bench_model(bench_run& run);
void bench_operations(bench_run& run);
void bench_overhead(bench_run& run);
void bench_programs(bench_run& run);
void bench_scaling(bench_run& run);
void bench_transfer(bench_run& run);
void bench_throughput(bench_run& run);
///@}

}  // namespace sluice::cli
