// SPDX-License-Identifier: Apache-2.0
#include "tools/sluice/bench/load_ways.hpp"
#include "tools/sluice/bench/paired_rounds.hpp"
#include "tools/sluice/bench/products.hpp"
#include "tools/sluice/bench/runs_of_steps.hpp"
#include "tools/sluice/bench/steps.hpp"

#include <fmt/format.h>

#include <cstddef>
#include <cstdint>
#include <vector>

namespace sluice::cli {
namespace {

constexpr std::size_t mel_in_flight = 32;
constexpr auto name_of_loop = "plain loop of library calls";

void measure_host_products(bench_run& run, std::size_t lanes) {
  const auto products = make_products(run.current, operand_sets, {{256, 256, 256}});
  const auto share = operand_sets / lanes;
  plain_threads plain(lanes, [&](std::size_t i) {
    return plain_products(run.runtime(), products, i * share, share);
  });
  paired_rounds ways(run, "sgemm_256", "sgemm(256)");
  ways.add(name_of_loop, [&](std::int64_t n) { plain.run(n); });
  ways.add(fmt::format("requests of an actor, {} in flight", bench_in_flight),
           sending(product_load(run.current, run.current.device().blas(), products, lanes)));
  ways.measure();
  check_products(run, products);
}

void measure_host_mel(bench_run& run, std::size_t lanes) {
  mel_steps steps(run.current);
  const auto clips = several(operand_sets, [&] { return steps.clips(1); });
  const auto share = static_cast<std::ptrdiff_t>(operand_sets / lanes);
  plain_threads plain(lanes, [&](std::size_t i) {
    const auto first = clips.begin() + static_cast<std::ptrdiff_t>(i) * share;
    return plain_steps(run.runtime(), steps, std::vector(first, first + share));
  });
  const auto runs = runs_of(program_of(steps, bench_in_flight, per_request), clips);
  const auto programs = run.current.device().programs();
  paired_rounds ways(run, "mel", mel_steps::name);
  ways.add(name_of_loop, [&](std::int64_t n) { plain.run(n); });
  ways.add(fmt::format("runs of a program, {} in flight", mel_in_flight),
           sending(make_load<tensors>(run.current, programs, runs, lanes, mel_in_flight)));
  ways.measure();
  check_runs(run, steps, runs);
}

}  // namespace

void bench_host(bench_run& run) {
  const auto lanes = run.service_of_device().lanes_per_actor();
  run.report.add_value("threads", {{"of_loop", lanes}});
  run.report.add_line(fmt::format("Threads of the loop, and lanes with a client each: {}", lanes));
  measure_host_products(run, lanes);
  measure_host_mel(run, lanes);
  run.report.set_library(run.library_of<gemm>() + ", " + run.library_of<rfft>());
}

}  // namespace sluice::cli
