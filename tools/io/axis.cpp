// SPDX-License-Identifier: Apache-2.0
#include "tools/io/axis.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>

namespace sluice::io {

namespace {

constexpr int tick_length = 6;

}  // namespace

std::vector<double> round_numbers(double low, double high, int max_count) {
  const double span = high - low;
  const double narrowest = 1e-7 * std::max(std::abs(low), std::abs(high));
  if (!(span > narrowest) || !std::isfinite(span)) return {};
  constexpr double slack = 1e-9;  // of a step, for ends that are multiples but for their rounding
  const double magnitude = std::pow(10.0, std::floor(std::log10(span / max_count)));
  for (const double factor : {1, 2, 5, 10, 20, 50}) {
    const double step = factor * magnitude;
    const double first = std::ceil(low / step - slack);
    const double last = std::floor(high / step + slack);
    if (last - first >= max_count) continue;
    std::vector<double> numbers;
    for (int i = 0; first + i <= last && i < max_count; ++i) numbers.push_back((first + i) * step);
    return numbers;
  }
  return {};
}

std::string number_text(double value) {
  std::array<char, 32> text{};
  std::snprintf(text.data(), text.size(), "%.10g", value + 0.0);  // no "-0"
  return text.data();
}

std::vector<axis_tick> linear_ticks(double low, double high, int max_count) {
  std::vector<axis_tick> ticks;
  for (const double value : round_numbers(low, high, max_count))
    ticks.push_back({(value - low) / (high - low), number_text(value)});
  return ticks;
}

int pixel_at(double position, int pixels) {
  return static_cast<int>(std::clamp(position * pixels, 0.0, pixels - 1.0));
}

void draw_axis(picture& target, const area& part, axis_side side,
               const std::vector<axis_tick>& ticks, std::string_view title) {
  const int right = part.x + part.width;
  const int bottom = part.y + part.height;
  for (const auto& tick : ticks) {
    const int x = part.x + pixel_at(tick.position, part.width);
    const int y = bottom - 1 - pixel_at(tick.position, part.height);
    switch (side) {
      case axis_side::below:
        target.fill({x, bottom, 1, tick_length}, black);
        target.write(tick.label, x, bottom + 17, {.align = 0.5});
        break;
      case axis_side::left:
        target.fill({part.x - tick_length, y, tick_length, 1}, black);
        target.write(tick.label, part.x - 10, y, {.align = 1});
        break;
      case axis_side::right:
        target.fill({right, y, tick_length, 1}, black);
        target.write(tick.label, right + 10, y);
        break;
    }
  }
  const double middle = part.y + part.height / 2.0;
  switch (side) {
    case axis_side::below:
      target.write(title, part.x + part.width / 2.0, bottom + 41, {.align = 0.5});
      break;
    case axis_side::left:
      target.write(title, part.x - 76, middle, {.align = 0.5, .upward = true});
      break;
    case axis_side::right:
      target.write(title, right + 60, middle, {.align = 0.5, .upward = true});
      break;
  }
}

}  // namespace sluice::io
