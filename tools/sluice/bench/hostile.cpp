// SPDX-License-Identifier: Apache-2.0
#include "tools/sluice/bench/hostile_client.hpp"
#include "tools/sluice/bench/latencies.hpp"
#include "tools/sluice/bench/products.hpp"

#include <fmt/format.h>

#include <string>
#include <vector>

namespace sluice::cli {

void bench_hostile(bench_run& run) {
  constexpr int requests = 1000;
  constexpr int warm_up = 300;
  auto& current = run.current;
  const auto products = make_products(current, 1, {{64, 64, 64}});
  const auto blas = current.device().blas();
  const auto round_trip = [&] {
    (void)current.ask<gpu_ref<float>>(blas, products.front());
  };
  (void)time_round_trips(warm_up, 0, round_trip);
  latency_rounds alone;
  latency_rounds beside;
  std::vector<double> rates;
  hostile_replies replies;
  run.each_round([&] {
    alone.add_round(time_round_trips(0, requests, round_trip));
    clock::time_point begun;
    const auto round_replies = beside_hostile_client(current, [&] {
      begun = clock::now();
      beside.add_round(time_round_trips(warm_up, requests, round_trip));
    });
    double count = 0;
    for (const auto& [kind, codes] : round_replies) {
      for (const auto& [code, answered] : codes) {
        replies[kind][code] += answered;
        count += static_cast<double>(answered);
      }
    }
    rates.push_back(count * 1e6 / microseconds_since(begun));
  });
  check_products(run, products);

  const double rate = quantile(rates, 0.5);
  const double median_ratio = beside.median() / alone.median();
  const double p99_ratio = beside.p99() / alone.p99();
  auto& report = run.report;
  report.set_library(run.library_of<gemm>());
  report.add("sgemm_64", "sgemm(64), one at a time",
             {alone.row("alone", "alone"), beside.row("beside", "beside a hostile client")});
  report.add_value("sgemm_64/ratio", {{"median", median_ratio}, {"p99", p99_ratio}});
  report.add_value(
      "hostile",
      {{"in_flight", bench_in_flight}, {"replies_per_second", rate}, {"replies", replies}});
  report.add_line(
      fmt::format("\n  beside the client to alone: {:.2f} times the median, {:.2f} times the p99\n"
                  "  the hostile client, {} in flight: {:.1f} thousand replies a second",
                  median_ratio, p99_ratio, bench_in_flight, rate / 1e3));
  for (const auto& [kind, codes] : replies) {
    for (const auto& [code, count] : codes) {
      report.add_line(fmt::format("  {:<52}  {:>24}", kind + ": " + code, count));
    }
  }
}

}  // namespace sluice::cli
