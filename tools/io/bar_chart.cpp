// SPDX-License-Identifier: Apache-2.0
#include "tools/io/bar_chart.hpp"

#include "tools/io/axis.hpp"

#include <sluice/runtime/error.hpp>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdio>

namespace sluice::io {

namespace {

constexpr colour blue{70, 120, 180};
constexpr colour grey{150, 150, 150};
constexpr colour pale{225, 225, 225};

// In pixels.
constexpr int edge_width = 24;
constexpr int label_width = 370;
constexpr int bar_width = 270;
constexpr int value_width = 80;
constexpr int row_height = 36;
constexpr int bar_height = 20;
constexpr int title_height = 50;
constexpr int line_height = 22;
constexpr int head_height = 36;   // of a panel
constexpr int scale_height = 50;  // of a panel

void check(const bar_chart& chart) {
  const auto require = [](bool holds, const char* description) {
    if (!holds) throw error(errc::invalid_argument, std::string("bar chart: ") + description);
  };
  require(!chart.panels.empty(), "needs at least one panel");
  for (const auto& panel : chart.panels) {
    require(!panel.rows.empty() && !panel.units.empty(), "a panel needs at least one row and unit");
    for (const auto& row : panel.rows)
      require(row.bars.size() == panel.units.size(), "a row needs a bar for each unit");
  }
}

bool is_shown(double value) {
  return std::isfinite(value) && value >= 0;
}

/// The largest number of a column, 1 if there is none above zero.
double largest(const bar_panel& panel, std::size_t column) {
  double result = 0;
  for (const auto& row : panel.rows)
    for (const double number : {row.bars[column].value, row.bars[column].high})
      if (is_shown(number)) result = std::max(result, number);
  return result > 0 ? result : 1;
}

/// With three digits, or all of those before the point.
std::string value_text(double value) {
  const int digits = value >= 100 ? 0 : value >= 10 ? 1 : value >= 1 ? 2 : 3;
  std::array<char, 400> text{};
  std::snprintf(text.data(), text.size(), "%.*f", digits, value);
  return text.data();
}

/// The scale and the grid of a column, which `rows` of bars cover.
void draw_scale(picture& target, const area& rows, const std::string& unit, double maximum) {
  const auto ticks = linear_ticks(0, maximum, 6);
  for (const auto& tick : ticks)
    target.fill({rows.x + pixel_at(tick.position, rows.width), rows.y, 1, rows.height}, pale);
  draw_axis(target, rows, axis_side::below, ticks, "");
  target.write(unit, rows.x, rows.y - 14.0);
}

void draw_bar(picture& target, const area& frame, const bar& item, double maximum, colour ink) {
  const int middle = frame.y + frame.height / 2;
  const auto length = [&](double number) {
    return pixel_at(number / maximum, frame.width);
  };
  int end = 0;
  if (is_shown(item.value)) {
    end = length(item.value) + 1;
    target.fill({frame.x, frame.y, end, frame.height}, ink);
    if (is_shown(item.low) && is_shown(item.high)) {
      const int low = length(item.low);
      const int high = length(item.high);
      target.fill({frame.x + low, middle, high - low + 1, 1}, black);
      for (const int x : {low, high}) target.fill({frame.x + x, middle - 4, 1, 9}, black);
      end = std::max(end, high + 1);
    }
  }
  target.write(value_text(item.value), frame.x + end + 6, middle, {.longest = value_width - 10.0});
}

}  // namespace

std::vector<std::vector<std::vector<area>>> bar_areas(const bar_chart& chart) {
  check(chart);
  std::vector<std::vector<std::vector<area>>> areas;
  int y = title_height + static_cast<int>(chart.lines.size()) * line_height;
  for (const auto& panel : chart.panels) {
    y += head_height;
    auto& panel_areas = areas.emplace_back();
    for (std::size_t row = 0; row < panel.rows.size(); ++row, y += row_height) {
      auto& row_areas = panel_areas.emplace_back();
      for (int column = 0; column < static_cast<int>(panel.units.size()); ++column)
        row_areas.push_back({edge_width + label_width + column * (bar_width + value_width),
                             y + (row_height - bar_height) / 2, bar_width, bar_height});
    }
    y += scale_height;
  }
  return areas;
}

picture draw_bar_chart(const bar_chart& chart) {
  const auto areas = bar_areas(chart);
  int right = 0;
  for (const auto& panel : areas)
    right = std::max(right, panel.front().back().x + bar_width + value_width);
  const int bottom = areas.back().back().back().y + bar_height;
  picture image(right + edge_width, bottom + scale_height);
  const double width = right - edge_width;
  image.write(chart.title, edge_width, 28, {.size = 18, .bold = true, .longest = width});
  double y = title_height;
  for (const auto& line : chart.lines) {
    image.write(line, edge_width, y, {.longest = width});
    y += line_height;
  }
  for (std::size_t p = 0; p < chart.panels.size(); ++p) {
    const auto& panel = chart.panels[p];
    const int top = areas[p].front().front().y - (row_height - bar_height) / 2;
    image.write(panel.title, edge_width, top - 14.0,
                {.size = 16, .bold = true, .longest = label_width - 20.0});
    const int height = static_cast<int>(panel.rows.size()) * row_height;
    for (std::size_t column = 0; column < panel.units.size(); ++column) {
      const double maximum = largest(panel, column);
      draw_scale(image, {areas[p].front()[column].x, top, bar_width, height}, panel.units[column],
                 maximum);
      for (std::size_t row = 0; row < panel.rows.size(); ++row)
        draw_bar(image, areas[p][row][column], panel.rows[row].bars[column], maximum,
                 panel.rows[row].is_reference ? grey : blue);
    }
    for (std::size_t row = 0; row < panel.rows.size(); ++row) {
      const auto& [label, note, is_reference, bars] = panel.rows[row];
      const area& first = areas[p][row].front();
      const double middle = first.y + first.height / 2.0;
      const double longest = label_width - 12.0;
      image.write(label, first.x - 12, note.empty() ? middle : middle - 8,
                  {.align = 1, .longest = longest});
      image.write(note, first.x - 12, middle + 9, {.size = 12, .align = 1, .longest = longest});
    }
  }
  return image;
}

}  // namespace sluice::io
