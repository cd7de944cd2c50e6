// SPDX-License-Identifier: Apache-2.0
#include "tools/io/timeline_picture.hpp"

#include "tools/io/axis.hpp"

#include <sluice/runtime/error.hpp>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <limits>
#include <string_view>
#include <vector>

namespace sluice::io {

namespace {

// Pale, so that black text can be read on them.
constexpr std::array<colour, 6> inks{{{158, 202, 225},
                                      {253, 208, 162},
                                      {161, 217, 155},
                                      {218, 198, 235},
                                      {255, 237, 140},
                                      {244, 184, 192}}};

struct timeline_pixels {
  static constexpr int edge = 24;
  static constexpr int label = 110;
  static constexpr int spans = 960;
  static constexpr int title = 50;
  static constexpr int row = 30;
  static constexpr int box = 24;
  static constexpr int scale = 60;
  static constexpr int font = 13;
  static constexpr double character = 7.5;  // of most letters of the font
};

/// Consecutive labels get different colours; equal labels get equal ones.
colour ink_of(std::string_view label, std::vector<std::string_view>& labels) {
  const auto found = std::ranges::find(labels, label);
  const auto index = static_cast<std::size_t>(found - labels.begin());
  if (found == labels.end()) labels.push_back(label);
  return inks[index % inks.size()];
}

}  // namespace

timeline_extent extent_of(const timeline_view& view) {
  double begin = std::numeric_limits<double>::infinity();
  double end = -begin;
  for (const auto& row : view.rows)
    for (const auto& span : row.spans) {
      begin = std::min(begin, span.begin);
      end = std::max(end, span.end);
    }
  if (!std::isfinite(end - begin) || end <= begin)
    throw error(errc::invalid_argument, "timeline: needs spans of finite times");
  return {begin, end - begin};
}

area row_area(std::size_t row) {
  return {timeline_pixels::edge + timeline_pixels::label,
          timeline_pixels::title + static_cast<int>(row) * timeline_pixels::row,
          timeline_pixels::spans, timeline_pixels::box};
}

picture draw_timeline(const timeline_view& view) {
  const auto extent = extent_of(view);
  const int rows_height = static_cast<int>(view.rows.size()) * timeline_pixels::row;
  picture image(2 * timeline_pixels::edge + timeline_pixels::label + timeline_pixels::spans,
                timeline_pixels::title + rows_height + timeline_pixels::scale);
  image.write(view.title, timeline_pixels::edge, timeline_pixels::title / 2.0 - 4,
              {.size = 16, .bold = true, .longest = image.width() - 2.0 * timeline_pixels::edge});
  std::vector<std::string_view> labels;
  for (std::size_t row = 0; row < view.rows.size(); ++row) {
    const area frame = row_area(row);
    const int middle = frame.y + frame.height / 2;
    image.write(view.rows[row].label, frame.x - 10, middle,
                {.size = timeline_pixels::font, .align = 1, .longest = timeline_pixels::label});
    for (const auto& span : view.rows[row].spans) {
      const int left = pixel_at((span.begin - extent.begin) / extent.length, frame.width);
      const int right = pixel_at((span.end - extent.begin) / extent.length, frame.width);
      // A box leaves its last pixel white, so that neighbours can be told apart.
      const int width = std::max(1, right - left - 1);
      image.fill({frame.x + left, frame.y, width, frame.height}, ink_of(span.label, labels));
      if (timeline_pixels::character * static_cast<double>(span.label.size()) < width)
        image.write(span.label, frame.x + left + width / 2.0, middle,
                    {.size = timeline_pixels::font, .align = 0.5, .longest = width - 2.0});
    }
  }
  const bool is_short = extent.length < 2e-3;
  const double scale = is_short ? 1e6 : 1e3;
  draw_axis(image,
            {timeline_pixels::edge + timeline_pixels::label, timeline_pixels::title,
             timeline_pixels::spans, rows_height},
            axis_side::below, linear_ticks(0, extent.length * scale, 10),
            is_short ? "time (microseconds)" : "time (milliseconds)");
  return image;
}

}  // namespace sluice::io
