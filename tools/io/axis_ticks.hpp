// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <string>
#include <vector>

namespace sluice::io {

/// A mark on an axis. A minor mark has no label.
struct axis_tick {
  double value = 0;
  std::string label;
};

/// Marks within [low, high] at multiples of 1, 2 or 5 times a power of ten: about `most` of them,
/// and no more. `low` and `high` are finite, low <= high, most >= 1. Negative labels have a minus
/// sign (U+2212).
[[nodiscard]] std::vector<axis_tick> linear_ticks(double low, double high, int most);

/// Marks for a frequency axis within [low, high] Hz. `position` maps ascending Hz to ascending
/// pixels. Labelled marks are at 0 and at 1, 2 and 5 times powers of ten, at least `distance`
/// pixels apart. Minor marks are at the other multiples of powers of ten, at least 5 pixels apart.
/// If the range is too narrow for three labels, the marks are those of `linear_ticks`.
[[nodiscard]] std::vector<axis_tick> frequency_ticks(double low, double high,
                                                     const std::function<double(double)>& position,
                                                     double distance);

}  // namespace sluice::io
