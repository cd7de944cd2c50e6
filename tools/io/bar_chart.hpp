// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "tools/io/picture.hpp"

#include <string>
#include <vector>

namespace sluice::io {

/// A bar from zero to `value`, and a line from `low` to `high`.
struct bar {
  double value = 0;
  double low = 0;
  double high = 0;
};

struct bar_row {
  std::string label;
  std::string note{};         ///< a second line below the label
  bool is_reference = false;  ///< whether its bars are grey
  std::vector<bar> bars{};    ///< one for each column of the panel
};

/// Rows of bars in one or more columns, each of which has a unit and a scale of its own.
struct bar_panel {
  std::string title;
  std::vector<std::string> units;  ///< of the columns
  std::vector<bar_row> rows;
};

struct bar_chart {
  std::string title;
  std::vector<std::string> lines{};  ///< of text, below the title
  std::vector<bar_panel> panels;
};

/// The area of each bar of a chart, if it has the largest value of its column: by panel, row and
/// column. @throws error `invalid_argument` (no panel, a panel without rows or units, a row with
/// another number of bars than its panel has units)
[[nodiscard]] std::vector<std::vector<std::vector<area>>> bar_areas(const bar_chart& chart);

/// Draws horizontal bars with their values, the panels from the top to the bottom. The largest
/// finite number of a column takes the whole width. A value that is negative or not finite has no
/// bar. @throws error as `bar_areas`; `library_failure` (Cairo)
[[nodiscard]] picture draw_bar_chart(const bar_chart& chart);

}  // namespace sluice::io
