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

// In pixels.
constexpr int edge_width = 24;
constexpr int label_width = 110;
constexpr int spans_width = 960;
constexpr int title_height = 50;
constexpr int row_height = 30;
constexpr int box_height = 24;
constexpr int scale_height = 60;
constexpr int font_size = 13;
constexpr double character_width = 7.5;  // of most letters of the font in this size

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
  return {edge_width + label_width, title_height + static_cast<int>(row) * row_height, spans_width,
          box_height};
}

picture draw_timeline(const timeline_view& view) {
  const auto extent = extent_of(view);
  const int rows_height = static_cast<int>(view.rows.size()) * row_height;
  picture image(2 * edge_width + label_width + spans_width,
                title_height + rows_height + scale_height);
  image.write(view.title, edge_width, title_height / 2.0 - 4,
              {.size = 16, .bold = true, .longest = image.width() - 2.0 * edge_width});
  std::vector<std::string_view> labels;
  for (std::size_t row = 0; row < view.rows.size(); ++row) {
    const area frame = row_area(row);
    const int middle = frame.y + frame.height / 2;
    image.write(view.rows[row].label, frame.x - 10, middle,
                {.size = font_size, .align = 1, .longest = label_width});
    for (const auto& span : view.rows[row].spans) {
      const int left = pixel_at((span.begin - extent.begin) / extent.length, frame.width);
      const int right = pixel_at((span.end - extent.begin) / extent.length, frame.width);
      // A box leaves its last pixel white, so that neighbours can be told apart.
      const int width = std::max(1, right - left - 1);
      image.fill({frame.x + left, frame.y, width, frame.height}, ink_of(span.label, labels));
      if (character_width * static_cast<double>(span.label.size()) < width)
        image.write(span.label, frame.x + left + width / 2.0, middle,
                    {.size = font_size, .align = 0.5, .longest = width - 2.0});
    }
  }
  const bool is_short = extent.length < 2e-3;
  const double scale = is_short ? 1e6 : 1e3;
  draw_axis(image, {edge_width + label_width, title_height, spans_width, rows_height},
            axis_side::below, linear_ticks(0, extent.length * scale, 10),
            is_short ? "time (microseconds)" : "time (milliseconds)");
  return image;
}

}  // namespace sluice::io
