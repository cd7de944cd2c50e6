// SPDX-License-Identifier: Apache-2.0
#include "tools/sluice/bench/paired_rounds.hpp"

namespace sluice::cli {

void paired_rounds::measure() {
  warm_up();
  run_.each_round([this] { measure_round(); });
  for (const auto& [way, pieces, rates, latencies] : ways_) {
    section_row row{way.name, spread_of(rates), compare(rates, way.reference)};
    for (const auto other : way.comparisons) row.comparisons.push_back(compare(rates, other));
    if (way.mean_batch) row.mean_batch = way.mean_batch();
    if (way.latencies) row.latency = {latencies.median(), latencies.p99()};
    section_.rows.push_back(std::move(row));
  }
  run_.report.add(section_);
}

void paired_rounds::warm_up() {
  // A second, or as long as the rounds.
  const auto shortest_time =
      std::min<clock::duration>(std::chrono::seconds(1), run_.rounds * shortest());
  const auto start = clock::now();
  do {
    for (auto& way : ways_) {
      if (way.time() < shortest()) way.pieces *= 2;
    }
  } while (clock::now() - start < shortest_time);
  // The first calls also loaded code and made plans, so their times say nothing.
  for (auto& way : ways_) {
    while (way.time() < shortest()) way.pieces *= 2;
  }
}

void paired_rounds::measure_round() {
  std::vector<measured_way*> order;
  for (auto& way : ways_) order.push_back(&way);
  std::shuffle(order.begin(), order.end(), random_source());
  for (auto* const way : order) {
    const auto& log = way->way.latencies;
    if (log) (void)log->take();  // those of the warm-up
    const std::chrono::duration<double> time = way->time();
    if (log) way->latencies.add_round(log->take());
    way->rates.push_back(static_cast<double>(way->pieces) / time.count());
  }
}

comparison paired_rounds::compare(const std::vector<double>& rates, std::size_t reference) const {
  const auto& [way, pieces, reference_rates, latencies] = ways_[reference];
  std::vector<double> ratios;
  for (std::size_t i = 0; i < rates.size(); ++i) ratios.push_back(rates[i] / reference_rates[i]);
  return {way.name, spread_of(ratios)};
}

}  // namespace sluice::cli
