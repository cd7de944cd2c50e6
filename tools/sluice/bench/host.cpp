// SPDX-License-Identifier: Apache-2.0
#include "tools/sluice/bench/load_client.hpp"
#include "tools/sluice/bench/products.hpp"
#include "tools/sluice/bench/steps.hpp"

#include <fmt/format.h>

#include <span>

namespace sluice::cli {
namespace {

constexpr auto loop_name = "plain loop of library calls";

/// `lanes` threads, each with its share of `inputs`. `make(share)` makes the calls of a thread.
template <class Input, class Make>
plain_threads share_by_threads(const std::vector<Input>& inputs, std::size_t lanes,
                               const Make& make) {
  const auto share = inputs.size() / lanes;
  return plain_threads(
      lanes, [&](std::size_t i) { return make(std::span(inputs).subspan(i * share, share)); });
}

void measure_host_products(bench_run& run, std::size_t lanes) {
  const auto products = make_products(run.current, operand_sets, {{256, 256, 256}});
  auto plain = share_by_threads(products, lanes, [&](std::span<const sgemm> share) {
    return plain_products(run.runtime(), share);
  });
  paired_rounds ways(run, "sgemm_256", "sgemm(256)");
  ways.add(loop_name, [&](std::int64_t n) { plain.run(n); });
  ways.add(fmt::format("requests of an actor, {} in flight", bench_in_flight),
           sending(product_load(run.current, run.current.device().blas(), products, lanes)));
  ways.measure();
  check_products(run, products);
}

void measure_host_mel(bench_run& run, std::size_t lanes) {
  const mel_steps steps(run.current);
  const auto clips = several(operand_sets, [&] { return steps.clips(1); });
  auto plain = share_by_threads(clips, lanes, [&](std::span<const tensor> share) {
    return plain_steps(run.runtime(), steps, share);
  });
  const auto runs = runs_of(program_of(steps, bench_in_flight, per_request), clips);
  const auto programs = run.current.device().programs();
  constexpr std::size_t in_flight = 32;
  paired_rounds ways(run, "mel", mel_steps::name);
  ways.add(loop_name, [&](std::int64_t n) { plain.run(n); });
  ways.add(fmt::format("runs of a program, {} in flight", in_flight),
           sending(make_load<tensors>(run.current, programs, runs, lanes, in_flight)));
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
