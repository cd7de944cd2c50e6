// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <vector>

namespace sluice::cli {

/// The median and the 5th and 95th percentile of a figure over the rounds.
struct spread {
  double median = 0;
  double low = 0;
  double high = 0;
};

/// The quantile `part`, from 0 to 1, of at least one number, interpolated linearly.
inline double quantile(std::vector<double> numbers, double part) {
  std::sort(numbers.begin(), numbers.end());
  const double place = part * static_cast<double>(numbers.size() - 1);
  const auto lower = static_cast<std::size_t>(place);
  const auto upper = std::min(lower + 1, numbers.size() - 1);
  return std::lerp(numbers[lower], numbers[upper], place - static_cast<double>(lower));
}

/// The spread of at least one figure.
inline spread spread_of(const std::vector<double>& numbers) {
  return {quantile(numbers, 0.5), quantile(numbers, 0.05), quantile(numbers, 0.95)};
}

}  // namespace sluice::cli
