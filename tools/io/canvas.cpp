// SPDX-License-Identifier: Apache-2.0
#include "tools/io/canvas.hpp"

#include <algorithm>
#include <cmath>
#include <cstddef>

namespace sluice::io {

namespace {

std::uint8_t mix(std::uint8_t below, std::uint8_t above, double opacity) {
  return static_cast<std::uint8_t>(std::lround(below + (above - below) * opacity));
}

}  // namespace

canvas::canvas(int width, int height, colour background)
    : width_(width),
      height_(height),
      bytes_(static_cast<std::size_t>(width) * static_cast<std::size_t>(height) * 3) {
  fill_rectangle(0, 0, width, height, background);
}

std::size_t canvas::offset(int x, int y) const noexcept {
  return (static_cast<std::size_t>(y) * static_cast<std::size_t>(width_) +
          static_cast<std::size_t>(x)) *
         3;
}

void canvas::draw_pixel(int x, int y, colour ink, double opacity) {
  if (x < 0 || x >= width_ || y < 0 || y >= height_) return;
  std::uint8_t* const pixel = bytes_.data() + offset(x, y);
  const double bounded = std::clamp(opacity, 0.0, 1.0);
  pixel[0] = mix(pixel[0], ink.red, bounded);
  pixel[1] = mix(pixel[1], ink.green, bounded);
  pixel[2] = mix(pixel[2], ink.blue, bounded);
}

void canvas::fill_rectangle(int x, int y, int width, int height, colour ink) {
  for (int row = y; row < y + height; ++row)
    for (int column = x; column < x + width; ++column) draw_pixel(column, row, ink);
}

colour canvas::at(int x, int y) const {
  const std::uint8_t* const pixel = bytes_.data() + offset(x, y);
  return {pixel[0], pixel[1], pixel[2]};
}

}  // namespace sluice::io
