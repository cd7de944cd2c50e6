// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "tools/io/picture.hpp"

#include <cstddef>
#include <string>
#include <vector>

namespace sluice::io {

/// A piece of work in the row of a timeline, with its times in seconds.
struct timeline_span {
  std::string label;
  double begin = 0;
  double end = 0;
};

struct timeline_row {
  std::string label;
  std::vector<timeline_span> spans;  ///< in order; they do not overlap
};

/// Rows of work over time.
struct timeline_view {
  std::string title;
  std::vector<timeline_row> rows;
};

/// The time from which a timeline is drawn, and the length of what is drawn; both in seconds.
struct timeline_extent {
  double begin = 0;
  double length = 0;
};

/// The times that all spans cover. @throws error `invalid_argument` (no span, a time that is not
/// finite, or all times are equal)
[[nodiscard]] timeline_extent extent_of(const timeline_view& view);

/// The area of a row, counted from 0. Its width is that of `extent_of`.
[[nodiscard]] area row_area(std::size_t row);

/// Draws each span as a box, which has at least one pixel, in the colour of its label. The label is
/// left out where the box is too narrow for it. The axis counts from the first begin.
/// @throws error as `extent_of`; `library_failure` (Cairo)
[[nodiscard]] picture draw_timeline(const timeline_view& view);

}  // namespace sluice::io
