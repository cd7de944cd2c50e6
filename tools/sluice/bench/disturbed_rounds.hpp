// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <numeric>
#include <vector>

namespace sluice::cli {

/// A number of each round that other load on the machine raises: the time of a way of work, or how
/// often the kernel has interrupted it.
struct round_sign {
  std::vector<double> of_round{};
  double slack = 0;  ///< a rise that means nothing
};

/// The median of at least one number.
inline double median_of(std::vector<double> all) {
  std::sort(all.begin(), all.end());
  const auto middle = all.size() / 2;
  return all.size() % 2 != 0 ? all[middle] : (all[middle - 1] + all[middle]) / 2;
}

/// Finds the rounds in which other load on the machine has disturbed the measurement. Returns for
/// each whether it is one.
///
/// A round is disturbed if one of its signs exceeds the median of this sign over the rounds by more
/// than a tenth of it, five median absolute deviations and the slack together. Of these, at most a
/// quarter of all rounds are returned: those that exceed the bound most. All signs have a number
/// for each of `rounds` rounds.
[[nodiscard]] inline std::vector<bool> disturbed_rounds(std::size_t rounds,
                                                        const std::vector<round_sign>& signs) {
  std::vector<double> excess(rounds, 0);  // in parts of the bound
  for (const auto& sign : signs) {
    if (rounds == 0) break;
    const double median = median_of(sign.of_round);
    std::vector<double> deviations;
    for (const double value : sign.of_round) deviations.push_back(std::abs(value - median));
    const double bound = 1.1 * median + 5 * median_of(deviations) + sign.slack;
    for (std::size_t i = 0; i < rounds; ++i) {
      if (bound > 0) excess[i] = std::max(excess[i], sign.of_round[i] / bound - 1);
    }
  }
  std::vector<std::size_t> worst_first(rounds);
  std::iota(worst_first.begin(), worst_first.end(), std::size_t{0});
  std::sort(worst_first.begin(), worst_first.end(),
            [&](std::size_t a, std::size_t b) { return excess[a] > excess[b]; });
  std::vector<bool> disturbed(rounds, false);
  for (std::size_t i = 0; i < rounds / 4 && excess[worst_first[i]] > 0; ++i) {
    disturbed[worst_first[i]] = true;
  }
  return disturbed;
}

}  // namespace sluice::cli
