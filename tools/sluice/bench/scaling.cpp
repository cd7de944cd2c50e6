// SPDX-License-Identifier: Apache-2.0
#include "tools/sluice/bench/bench.hpp"
#include "tools/sluice/bench/paired_rounds.hpp"
#include "tools/sluice/bench/products.hpp"
#include "tools/sluice/bench/threads_by_hand.hpp"

#include <fmt/format.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

namespace sluice::cli {
namespace {

/// Products of square matrices by as many clients as the device has lanes.
paired_rounds measure(session& current, std::int64_t side, const bench_settings& settings) {
  const auto lanes = current.device().service().lanes_per_actor();
  const auto blas = current.device().blas();
  products of(current, side == 64 ? 1024 : 64, {{side, side, side}});
  threads_by_hand<by_hand> plain(
      lanes, [&](std::size_t) { return std::make_unique<by_hand>(current, of); });
  const auto clients = make_clients(current, of, lanes, bench_in_flight, blas, true,
                                    request_options{.bits = result_bits::as_if_alone});
  paired_rounds all(settings);
  (void)all.add(fmt::format("library calls, threads: {}", lanes), [&](std::int64_t n) {
    plain.run(n, [](by_hand& one, std::int64_t share) { one.one_by_one(share); });
  });
  (void)all.add(fmt::format("requests without batches, clients: {}", lanes),
                [&](std::int64_t n) { clients->send(n); });
  all.measure();
  of.check();
  return all;
}

}  // namespace

bench_report bench_scaling(session& current, const bench_settings& settings) {
  bench_report made{.library = library_of(row_of(operation_type<gemm>{}), current),
                    .json = {{"scaling", nlohmann::ordered_json::array()}},
                    .table = {}};
  for (const auto lanes : settings.lanes) {
    if (current.device().service().lanes_per_actor() != lanes) {
      current.reopen_device(settings.service(lanes));
    }
    auto& json = made.json["scaling"].emplace_back(nlohmann::ordered_json{{"lanes", lanes}});
    for (const std::int64_t side : {64, 512}) {
      const auto found = measure(current, side, settings);
      json[fmt::format("sgemm_{}", side)] = found.json();
      made.table += fmt::format("sgemm({}), lanes: {}\n{}\n", side, lanes, found.table());
    }
  }
  if (!made.table.empty()) made.table.pop_back();  // a blank line follows the table
  return made;
}

}  // namespace sluice::cli
