// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace sluice::io {

/// An sRGB colour.
struct colour {
  std::uint8_t red = 0;
  std::uint8_t green = 0;
  std::uint8_t blue = 0;
  [[nodiscard]] bool operator==(const colour&) const noexcept = default;
};

/// A picture in memory. Pixel (0, 0) is the upper left one. Drawing outside of the picture has no
/// effect.
class canvas {
 public:
  /// `width` and `height` in pixels, both at least 1.
  canvas(int width, int height, colour background);

  [[nodiscard]] int width() const noexcept { return width_; }
  [[nodiscard]] int height() const noexcept { return height_; }

  /// Blends `ink` over one pixel, with an opacity from 0 (transparent) to 1 (opaque).
  void draw_pixel(int x, int y, colour ink, double opacity = 1);
  void fill_rectangle(int x, int y, int width, int height, colour ink);

  /// The colour of a pixel inside the picture.
  [[nodiscard]] colour at(int x, int y) const;

  /// Three bytes (red, green, blue) for each pixel, row by row, without padding.
  [[nodiscard]] std::span<const std::uint8_t> bytes() const noexcept { return bytes_; }

 private:
  [[nodiscard]] std::size_t offset(int x, int y) const noexcept;

  int width_;
  int height_;
  std::vector<std::uint8_t> bytes_;
};

}  // namespace sluice::io
