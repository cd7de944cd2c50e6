// SPDX-License-Identifier: Apache-2.0
#include "tools/sluice/bench/paired_rounds.hpp"

#include "tools/sluice/bench/disturbed_rounds.hpp"
#include "tools/sluice/bench/processors.hpp"

#include <sys/resource.h>

#include <algorithm>
#include <cmath>
#include <numeric>

namespace sluice::cli {
namespace {

long involuntary_switches() {
  rusage used{};
  (void)::getrusage(RUSAGE_THREAD, &used);
  return used.ru_nivcsw;
}

spread spread_of(std::vector<double> all) {
  std::sort(all.begin(), all.end());
  const auto quantile = [&](double part) {
    const double place = part * static_cast<double>(all.size() - 1);
    return all[static_cast<std::size_t>(std::lround(place))];
  };
  return {median_of(all), quantile(0.05), quantile(0.95)};
}

}  // namespace

void paired_rounds::measure() {
  warm_up();
  run_.conditions.note();
  std::vector<double> switches;
  for (std::size_t round = 0; round < run_.rounds; ++round) {
    switches.push_back(measure_round());
    run_.conditions.note();
  }
  leave_out_disturbed(std::move(switches));
  for (const auto& measured : ways_) {
    const auto& way = measured.way;
    section_row row{way.name, spread_of(measured.rates), compare(measured, way.reference)};
    for (const auto other : way.beside) row.beside.push_back(compare(measured, other));
    if (way.mean_batch) row.mean_batch = way.mean_batch();
    section_.rows.push_back(std::move(row));
  }
  run_.report.add(section_);
}

void paired_rounds::warm_up() {
  // A second, or as long as the rounds.
  const auto shortest_time =
      std::min<clock::duration>(std::chrono::seconds(1), run_.rounds * shortest);
  const auto begun = clock::now();
  do {
    for (auto& way : ways_) {
      if (way.timed() < shortest) way.pieces *= 2;
    }
  } while (clock::now() - begun < shortest_time);
  for (auto& way : ways_) {
    while (way.timed() < shortest) way.pieces *= 2;
  }
}

double paired_rounds::measure_round() {
  std::vector<std::size_t> order(ways_.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::shuffle(order.begin(), order.end(), random_);
  const pinned_client here(0);
  const auto switches_before = involuntary_switches();
  for (const auto i : order) {
    auto& way = ways_[i];
    const std::chrono::duration<double> took = way.timed();
    way.rates.push_back(static_cast<double>(way.pieces) / took.count());
  }
  return static_cast<double>(involuntary_switches() - switches_before);
}

/// Signs of a disturbed round are the times of the references and the switches.
void paired_rounds::leave_out_disturbed(std::vector<double> switches) {
  std::vector<round_sign> signs{{.of_round = std::move(switches), .slack = 2}};
  for (std::size_t i = 0; i < ways_.size(); ++i) {
    if (ways_[i].way.reference != i) continue;
    auto& times = signs.emplace_back().of_round;
    for (const double rate : ways_[i].rates) times.push_back(1 / rate);
  }
  const auto disturbed = disturbed_rounds(run_.rounds, signs);
  for (auto& way : ways_) {
    auto is_disturbed = disturbed.begin();
    std::erase_if(way.rates, [&](double) { return *is_disturbed++; });
  }
  run_.conditions.note_rounds(
      run_.rounds, static_cast<std::size_t>(std::count(disturbed.begin(), disturbed.end(), true)));
}

comparison paired_rounds::compare(const measured_way& way, std::size_t other) const {
  std::vector<double> ratios(way.rates.size());
  std::transform(way.rates.begin(), way.rates.end(), ways_[other].rates.begin(), ratios.begin(),
                 std::divides<>());
  return {ways_[other].way.name, spread_of(std::move(ratios))};
}

}  // namespace sluice::cli
