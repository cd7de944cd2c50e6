// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "tools/io/colour_map.hpp"

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <limits>
#include <string_view>
#include <vector>

namespace sluice::io {

inline constexpr colour white{255, 255, 255};
inline constexpr colour black{0, 0, 0};

/// A rectangle of pixels. `x` and `y` are its left upper corner.
struct area {
  int x = 0;
  int y = 0;
  int width = 0;
  int height = 0;
  [[nodiscard]] bool operator==(const area&) const noexcept = default;
};

/// How `picture::write` draws a text.
struct text_style {
  double size = 15;  ///< of the font, in pixels
  double align = 0;  ///< the part of the text before its position: 0, 0.5 or 1
  bool bold = false;
  bool upward = false;  ///< whether the text is read from the bottom to the top
  double longest = std::numeric_limits<double>::infinity();  ///< in pixels; a longer text is shrunk
};

/// A picture in memory, in sRGB. The pixel (0, 0) is at the left upper corner. Not thread-safe.
///
/// Texts are drawn with Cairo's built-in font, so a picture is the same on every machine, whatever
/// fonts it has. The font has the printable characters of ASCII.
class picture {
 public:
  /// A white picture. @throws error `invalid_argument` unless both sizes are from 1 to 32767
  picture(int width, int height);

  [[nodiscard]] int width() const noexcept { return width_; }
  [[nodiscard]] int height() const noexcept { return height_; }
  [[nodiscard]] colour at(int x, int y) const;

  /// Fills a rectangle. The part outside of the picture is left out.
  void fill(const area& part, colour ink);
  /// Gives each pixel of `part` the colour `ink(x, y)`, with coordinates that begin at the corner
  /// of `part`, which lies inside the picture.
  void fill(const area& part, const std::function<colour(int x, int y)>& ink);
  /// Draws one line of text. Its vertical centre is at `y`, for a text that is read upwards its
  /// horizontal centre at `x`. Each character outside of ASCII is shown as "?".
  /// @throws error `library_failure` (Cairo)
  void write(std::string_view text, double x, double y, const text_style& style = {});

  /// The bytes of a PNG file. @throws error `library_failure` (Cairo)
  [[nodiscard]] std::vector<std::byte> png() const;
  /// Writes the PNG file as an `output_file`. @throws error as `png` and `output_file`
  void save(const std::filesystem::path& path) const;

 private:
  int width_;
  int height_;
  std::vector<std::uint32_t> pixels_;  // 0x00rrggbb, row by row
};

}  // namespace sluice::io
