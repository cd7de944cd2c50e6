// SPDX-License-Identifier: Apache-2.0
#include "tools/sluice/bench.hpp"
#include "tools/sluice/paired_rounds.hpp"
#include "tools/sluice/products.hpp"
#include "tools/sluice/threads_by_hand.hpp"

#include <fmt/format.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

namespace sluice::cli {

bench_report bench_scaling(session& current, const bench_settings& settings) {
  const auto lanes = current.device().service().lanes_per_actor();
  const auto blas = current.device().blas();
  bench_report made{.library = library_of(row_of(operation_type<gemm>{}), current),
                    .json = nlohmann::ordered_json::object(),
                    .table = {}};
  for (const std::int64_t side : {64, 512}) {
    const std::size_t count = side == 64 ? 1024 : 64;
    products of(current, count, {{side, side, side}});
    threads_by_hand<by_hand> plain(
        lanes, [&](std::size_t) { return std::make_unique<by_hand>(current, of); });
    const auto clients = make_clients(current, of, lanes, bench_in_flight, blas, true,
                                      request_options{.bits = result_bits::as_if_alone});
    paired_rounds all(settings);
    (void)all.add(fmt::format("library calls, threads: {}", lanes), [&](std::int64_t n) {
      plain.run(n, [](by_hand& one, std::int64_t share) { one.one_by_one(share); });
    });
    (void)all.add(fmt::format("requests without batches, clients: {}", lanes),
                  [clients](std::int64_t n) { clients->send(n); });
    all.measure();
    of.check();
    made.json[fmt::format("sgemm_{}", side)] = all.json();
    made.table += fmt::format("sgemm({})\n{}\n", side, all.table());
  }
  return made;
}

}  // namespace sluice::cli
