// SPDX-License-Identifier: Apache-2.0
#include "tools/sluice/arrays.hpp"
#include "tools/sluice/command.hpp"
#include "tools/sluice/session.hpp"

#include <sluice/operations/blas.hpp>
#include <sluice/runtime/launch_recorder.hpp>
#include <sluice/version.hpp>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <fstream>
#include <memory>
#include <optional>
#include <random>
#include <string>
#include <thread>
#include <utility>
#include <vector>

namespace sluice::cli {

namespace {

struct bench_options {
  common_options common;
  bool json = false;
};

using clock = std::chrono::steady_clock;

constexpr std::int64_t side = 64;      // of the square matrices
constexpr std::size_t in_flight = 64;  // requests of one client

double microseconds_since(clock::time_point begun) {
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

struct figures {
  times raw_call;
  times round_trip;
  times raw_piece;        ///< of one call, with many queued
  times pipelined_piece;  ///< of one request, with `in_flight` requests in flight
  times recorded;         ///< of preflight and commit with three blocks
};

/// Measures sgemm(64) as requests to the blas actor and as plain calls of the same library on
/// another stream.
class sgemm_bench {
 public:
  explicit sgemm_bench(session& current)
      : system_(current.system()),
        runtime_(current.device().service().runtime()),
        actor_(current.device().blas()),
        stream_(runtime_.create_stream()),
        libraries_(runtime_, stream_.ref()),
        a_(upload_values(current, numbers())),
        b_(upload_values(current, numbers())) {
    for (std::size_t i = 0; i < in_flight; ++i) c_.push_back(upload_values(current, numbers()));
    raw_c_ = upload_values(current, numbers());
    row_.prepare(libraries_);
    auto operation = to_operation(request(0));
    inference_of<detail::operand_count<gemm>()> inferred(detail::operands_of(operation));
    row_.infer(&operation, inferred, call_);
  }
  sgemm_bench(const sgemm_bench&) = delete;
  sgemm_bench& operator=(const sgemm_bench&) = delete;
  ~sgemm_bench() = default;

  [[nodiscard]] std::string library() const {
    const auto kind = runtime_.device().id().kind;
    return std::string(row_.library(kind)) + ' ' + row_.version(kind);
  }

  /// Makes one call and waits for its end, `count` times.
  void raw_calls(int count, times& into) {
    for (int i = 0; i < count; ++i) {
      const auto begun = clock::now();
      call_library();
      stream_.synchronize();
      into.add(microseconds_since(begun));
    }
  }
  /// Sends one request and waits for its reply, `count` times.
  void round_trips(int count, times& into) {
    caf::scoped_actor self{system_};
    for (int i = 0; i < count; ++i) {
      const auto begun = clock::now();
      receive(self->request(actor_, caf::infinite, request(0)));
      into.add(microseconds_since(begun));
    }
  }

  /// Makes `count` calls, then waits for the last.
  void raw_loop(int count, times& into) {
    const auto begun = clock::now();
    for (int i = 0; i < count; ++i) call_library();
    stream_.synchronize();
    into.add(microseconds_since(begun) / count);
  }
  /// Sends `count` requests from one client, at most `in_flight` at a time.
  void pipelined(int count, times& into) {
    caf::scoped_actor self{system_};
    const auto send = [&](std::size_t i) {
      return self->request(actor_, caf::infinite, request(i % in_flight));
    };
    std::deque<decltype(send(0))> pending;
    const auto begun = clock::now();
    for (int sent = 0; sent < count; ++sent) {
      if (pending.size() == in_flight) {
        receive(std::move(pending.front()));
        pending.pop_front();
      }
      pending.push_back(send(static_cast<std::size_t>(sent)));
    }
    for (; !pending.empty(); pending.pop_front()) receive(std::move(pending.front()));
    into.add(microseconds_since(begun) / count);
  }

  /// Runs preflight and commit of a launch that reads two blocks and writes one, `count` times.
  void recorders(int count, times& into) {
    const auto begun = clock::now();
    for (int i = 0; i < count; ++i) {
      auto recorder = launch_recorder::strict(stream_.ref());
      recorder.read(a_).read(b_).write(raw_c_);
      recorder.preflight();
      recorder.commit();
    }
    into.add(microseconds_since(begun) / count);
    stream_.synchronize();
  }

 private:
  std::vector<float> numbers() {
    std::uniform_real_distribution<float> uniform(-1, 1);
    std::vector<float> values(side * side);
    for (float& value : values) value = uniform(random_);
    return values;
  }
  /// Enqueues a call of the library, as a request does, without everything around it.
  void call_library() {
    const std::array<void*, 3> addresses{a_.data(), b_.data(), raw_c_.data()};
    row_.enqueue(libraries_, call_, {.addresses = addresses});
  }
  [[nodiscard]] sgemm request(std::size_t i) const {
    return {.m = side, .n = side, .k = side, .a = a_, .b = b_, .c = c_[i]};
  }
  template <class Pending>
  void receive(Pending pending) {
    std::optional<error> failure;
    pending.receive([](const gpu_ref<float>&) {},
                    [&](const caf::error& why) {
                      failure = from_caf_error(why);
                      if (!failure) failure.emplace(errc::library_failure, describe(system_, why));
                    });
    if (failure) throw *failure;
  }

  caf::actor_system& system_;
  device_runtime& runtime_;
  blas_actor actor_;
  stream stream_;
  const operation_row& row_ = row_of(operation_type<gemm>{});
  lane_libraries libraries_;
  std::mt19937_64 random_{std::random_device()()};
  gpu_ref<float> a_;
  gpu_ref<float> b_;
  gpu_ref<float> raw_c_;
  std::vector<gpu_ref<float>> c_;
  operation_row::call_storage call_;
};

/// Runs all measurements in turn, many times, so that other load on the machine affects all alike.
figures measure(sgemm_bench& bench) {
  times warm_up;
  bench.raw_calls(300, warm_up);
  bench.round_trips(300, warm_up);
  bench.raw_loop(300, warm_up);
  bench.pipelined(300, warm_up);
  bench.recorders(300, warm_up);
  figures result;
  for (int round = 0; round < 40; ++round) {
    bench.raw_calls(100, result.raw_call);
    bench.round_trips(100, result.round_trip);
    bench.raw_loop(400, result.raw_piece);
    bench.pipelined(400, result.pipelined_piece);
    bench.recorders(400, result.recorded);
  }
  return result;
}

/// The name of the processor, from Linux.
std::string processor() {
  std::ifstream lines("/proc/cpuinfo");
  for (std::string line; std::getline(lines, line);)
    if (line.starts_with("model name"))
      if (const auto colon = line.find(": "); colon != std::string::npos)
        return line.substr(colon + 2);
  return "unknown processor";
}

std::string json_text(const figures& f, session& current, const std::string& library) {
  const auto latencies = [](const times& t) {
    return nlohmann::ordered_json{{"median_us", t.median()}, {"p99_us", t.quantile(0.99)}};
  };
  const auto info = current.info();
  const nlohmann::ordered_json all = {
      {"version", version},
      {"machine",
       {{"processor", processor()}, {"hardware_threads", std::thread::hardware_concurrency()}}},
      {"device",
       {{"id", current.device_name()}, {"name", info.name}, {"memory_bytes", info.memory_bytes}}},
      {"library", library},
      {"sgemm_64",
       {{"raw", latencies(f.raw_call)},
        {"actor", latencies(f.round_trip)},
        {"ratio", f.round_trip.median() / f.raw_call.median()}}},
      {"sgemm_64_pipelined",
       {{"in_flight", in_flight},
        {"raw_per_second", 1e6 / f.raw_piece.median()},
        {"actor_per_second", 1e6 / f.pipelined_piece.median()},
        {"ratio", f.raw_piece.median() / f.pipelined_piece.median()}}},
      {"preflight_and_commit_3_blocks", {{"median_us", f.recorded.median()}}}};
  return all.dump(2) + '\n';
}

std::string table(const figures& f, session& current, const std::string& library) {
  const auto& raw = f.raw_call;
  const auto& trip = f.round_trip;
  const auto per_second = [](const times& t) {
    return fmt::format("{:.1f} k/s", 1e3 / t.median());
  };
  std::string text =
      fmt::format("sluice {} on {}: {}, {}; {} with {} threads\n\n", version, current.device_name(),
                  current.info().name, library, processor(), std::thread::hardware_concurrency());
  const auto line = [&](const std::string& what, const auto& plain, const auto& actor,
                        const auto& ratio) {
    text += fmt::format("  {:<36}  {:>12}  {:>12}  {:>7}\n", what, plain, actor, ratio);
  };
  const auto latency = [&](const std::string& what, double plain, double actor) {
    line(what, fmt::format("{:.2f} us", plain), fmt::format("{:.2f} us", actor),
         fmt::format("{:.2f}", actor / plain));
  };
  line("", "library call", "actor", "ratio");
  latency("sgemm(64), one at a time, median", raw.median(), trip.median());
  latency("sgemm(64), one at a time, p99", raw.quantile(0.99), trip.quantile(0.99));
  line(fmt::format("sgemm(64), {} in flight", in_flight), per_second(f.raw_piece),
       per_second(f.pipelined_piece),
       fmt::format("{:.2f}", f.raw_piece.median() / f.pipelined_piece.median()));
  line("preflight and commit of 3 blocks", "", fmt::format("{:.2f} us", f.recorded.median()), "");
  return text;
}

void run(const bench_options& options) {
  require_distinct_files(options.common, {}, {});
  session current(options.common, session::watch::nothing);
  sgemm_bench bench(current);
  const figures result = measure(bench);
  current.finish();
  print(options.json ? json_text(result, current, bench.library())
                     : table(result, current, bench.library()));
}

}  // namespace

void add_bench_command(CLI::App& program) {
  const auto options = std::make_shared<bench_options>();
  CLI::App& command = add_command(
      program, "bench", "Compare requests to an actor with plain library calls", options->common);
  command.add_flag("--json", options->json, "Print JSON");
  command.callback([options] { run(*options); });
}

}  // namespace sluice::cli
