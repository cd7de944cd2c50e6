// SPDX-License-Identifier: Apache-2.0
#include "tools/sluice/bench.hpp"
#include "tools/sluice/paired_rounds.hpp"
#include "tools/sluice/products.hpp"

#include <fmt/format.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <thread>
#include <vector>

namespace sluice::cli {
namespace {

/// As many threads as lanes, each with a stream and library handles of its own.
class threads_by_hand {
 public:
  threads_by_hand(session& current, const products& of, std::size_t count) {
    for (std::size_t i = 0; i < count; ++i) all_.push_back(std::make_unique<by_hand>(current, of));
  }
  void one_by_one(std::int64_t count) {
    std::vector<std::thread> running;
    running.reserve(all_.size());
    for (const auto& one : all_) {
      running.emplace_back([&one, share = count / static_cast<std::int64_t>(all_.size())] {
        one->one_by_one(share);
      });
    }
    for (auto& each : running) each.join();
  }

 private:
  std::vector<std::unique_ptr<by_hand>> all_;
};

}  // namespace

bench_report bench_scaling(session& current, const bench_settings& settings) {
  const auto lanes = current.device().service().lanes_per_actor();
  const auto blas = current.device().blas();
  bench_report made{.library = library_of(row_of(operation_type<gemm>{}), current),
                    .json = nlohmann::ordered_json::object(),
                    .table = {}};
  for (const std::int64_t side : {64, 512}) {
    const std::size_t count = side == 64 ? 1024 : 64;
    products of(current, count, {{side, side, side}});
    threads_by_hand plain(current, of, lanes);
    const auto clients = make_clients(current, of, lanes, bench_in_flight, blas, true,
                                      request_options{.bits = result_bits::as_if_alone});
    paired_rounds all(settings);
    (void)all.add(fmt::format("library calls, threads: {}", lanes),
                  [&](std::int64_t n) { plain.one_by_one(n); });
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
