// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "tools/io/picture.hpp"

#include <string>
#include <string_view>
#include <vector>

namespace sluice::io {

/// A mark of an axis and what stands beside it.
struct axis_tick {
  double position = 0;  ///< from 0, the left or lower end of the axis, to 1
  std::string label{};
};

/// The multiples from `low` to `high` of the smallest step that gives at most `max_count` of
/// them, with `max_count` >= 1. A step is 1, 2 or 5 times a power of ten. Empty unless both are
/// finite and `high` - `low` is more than a 1e-7th of the larger, so that ten digits tell the
/// numbers apart.
[[nodiscard]] std::vector<double> round_numbers(double low, double high, int max_count);

/// A number of `round_numbers` in the fewest digits: "0.25", "20000".
[[nodiscard]] std::string number_text(double value);

/// Ticks at the round numbers of a linear axis.
[[nodiscard]] std::vector<axis_tick> linear_ticks(double low, double high, int max_count);

/// The index of the pixel at a position of an axis of so many pixels.
[[nodiscard]] int pixel_at(double position, int pixels);

/// The sides of an area where an axis may stand.
enum class axis_side { below, left, right };

/// Draws an axis along a side of `part`: a mark and a label for each tick, and a title.
/// @throws error as `picture::write`
void draw_axis(picture& target, const area& part, axis_side side,
               const std::vector<axis_tick>& ticks, std::string_view title);

}  // namespace sluice::io
