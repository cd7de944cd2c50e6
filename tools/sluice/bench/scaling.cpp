// SPDX-License-Identifier: Apache-2.0
#include "tools/sluice/bench/load_client.hpp"
#include "tools/sluice/bench/products.hpp"

#include <fmt/format.h>

namespace sluice::cli {
namespace {

/// Products of square matrices by as many clients as the device has lanes.
void measure_lanes(bench_run& run, std::size_t lanes, std::int64_t side, std::string path) {
  const auto products = make_products(run.current, side == 64 ? 1024 : 64, {{side, side, side}});
  plain_threads plain(lanes, [&](std::size_t) { return plain_products(run.runtime(), products); });
  paired_rounds ways(run, std::move(path), fmt::format("sgemm({}), lanes: {}", side, lanes));
  ways.add(fmt::format("library calls, threads: {}", lanes), [&](std::int64_t n) { plain.run(n); });
  ways.add(
      fmt::format("requests without batches, clients: {}", lanes),
      sending(product_load(run.current, run.current.device().blas(), products, lanes,
                           bench_in_flight, request_options{.bits = result_bits::as_if_alone})));
  ways.measure();
  check_products(run, products);
}

}  // namespace

void bench_scaling(bench_run& run) {
  for (std::size_t i = 0; i < run.lanes.size(); ++i) {
    const auto lanes = run.lanes[i];
    if (i != 0) run.current.reopen_device(run.service(lanes));
    const auto path = fmt::format("scaling/{}/", i);
    run.report.add_value(path + "lanes", lanes);
    for (const int side : {64, 512}) {
      measure_lanes(run, lanes, side, path + fmt::format("sgemm_{}", side));
    }
  }
  run.report.set_library(run.library_of<gemm>());
}

}  // namespace sluice::cli
