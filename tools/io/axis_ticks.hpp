#pragma once

#include <functional>
#include <string>
#include <vector>

namespace sluice::io {

/// A mark on an axis. A minor one has no label.
struct axis_tick {
  double value = 0;
  std::string label;
};

/// Marks at multiples of 1, 2 or 5 times a power of ten within [low, high], at most `most` of them
/// and about that many; at least one where any such multiple lies in the range. Needs low <= high,
/// most >= 1, and numbers that are finite. Negative labels have a minus sign (U+2212).
[[nodiscard]] std::vector<axis_tick> linear_ticks(double low, double high, int most);

/// Marks for a frequency axis within [low, high] Hz whose scale `position` maps ascending Hz to
/// ascending pixels: 0 and 1, 2 and 5 times powers of ten where they are at least `distance` pixels
/// apart, and unlabelled ones at the other multiples of powers of ten where those are at least 5
/// pixels apart. Falls back to `linear_ticks` where the range is too narrow for them.
[[nodiscard]] std::vector<axis_tick> frequency_ticks(double low, double high,
                                                     const std::function<double(double)>& position,
                                                     double distance);

}  // namespace sluice::io
