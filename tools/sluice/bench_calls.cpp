// SPDX-License-Identifier: Apache-2.0
#include "tools/sluice/bench.hpp"
#include "tools/sluice/sgemm_bench.hpp"

#include <sluice/operations/request_options.hpp>

#include <fmt/format.h>

#include <chrono>
#include <string>

namespace sluice::cli {

namespace {

struct figures {
  times raw_call;
  times round_trip;
  times raw_piece;        ///< of one call, with many queued
  times pipelined_piece;  ///< of one request, with `bench_in_flight` requests in flight
  times followed_piece;   ///< the same, each with a deadline and an id
  times recorded;         ///< of preflight and commit with three blocks
};

/// Options that the executor has to follow until the reply.
request_options in_an_hour() {
  return {.deadline = clock::now() + std::chrono::hours(1), .id = 1};
}

/// Runs all measurements in turn, many times, so that other load on the machine affects all alike.
figures measure(sgemm_bench& bench) {
  times warm_up;
  bench.raw_calls(300, warm_up);
  bench.round_trips(300, warm_up);
  bench.raw_loop(300, warm_up);
  bench.pipelined(300, warm_up);
  bench.pipelined(300, warm_up, in_an_hour());
  bench.recorders(300, warm_up);
  figures result;
  for (int round = 0; round < 40; ++round) {
    bench.raw_calls(100, result.raw_call);
    bench.round_trips(100, result.round_trip);
    bench.raw_loop(400, result.raw_piece);
    bench.pipelined(400, result.pipelined_piece);
    bench.pipelined(400, result.followed_piece, in_an_hour());
    bench.recorders(400, result.recorded);
  }
  return result;
}

nlohmann::ordered_json json_of(const figures& f) {
  return {{"sgemm_64",
           {{"raw", json_of(f.raw_call)},
            {"actor", json_of(f.round_trip)},
            {"ratio", f.round_trip.median() / f.raw_call.median()}}},
          {"sgemm_64_pipelined",
           {{"in_flight", bench_in_flight},
            {"raw_per_second", 1e6 / f.raw_piece.median()},
            {"actor_per_second", 1e6 / f.pipelined_piece.median()},
            {"actor_with_deadline_and_id_per_second", 1e6 / f.followed_piece.median()},
            {"ratio", f.raw_piece.median() / f.pipelined_piece.median()}}},
          {"preflight_and_commit_3_blocks", {{"median_us", f.recorded.median()}}}};
}

std::string table(const figures& f) {
  const auto& raw = f.raw_call;
  const auto& trip = f.round_trip;
  const auto per_second = [](const times& t) {
    return fmt::format("{:.1f} k/s", 1e3 / t.median());
  };
  std::string text;
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
  line(fmt::format("sgemm(64), {} in flight", bench_in_flight), per_second(f.raw_piece),
       per_second(f.pipelined_piece),
       fmt::format("{:.2f}", f.raw_piece.median() / f.pipelined_piece.median()));
  line("  the same, with deadline and id", "", per_second(f.followed_piece), "");
  line("preflight and commit of 3 blocks", "", fmt::format("{:.2f} us", f.recorded.median()), "");
  return text;
}

}  // namespace

bench_report bench_calls(session& current) {
  sgemm_bench bench(current);
  const figures result = measure(bench);
  return {.library = library_of(row_of(operation_type<gemm>{}), current),
          .json = json_of(result),
          .table = table(result)};
}

}  // namespace sluice::cli
