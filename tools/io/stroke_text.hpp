// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "tools/io/canvas.hpp"

#include <string>
#include <string_view>

namespace sluice::io {

/// The style of text. All lengths are in pixels.
struct text_style {
  double cap_height = 12;  ///< the height of a capital letter
  double stroke = 1.4;     ///< the width of the pen
  colour ink;
};

enum class text_anchor { start, middle, end };
enum class text_direction { rightwards, upwards };

/// The length of one line of UTF-8 text in pixels.
[[nodiscard]] double text_length(std::string_view text, const text_style& style);

/// `text`, cut and ended with an ellipsis if it is longer than `length` pixels.
[[nodiscard]] std::string shortened(std::string_view text, const text_style& style, double length);

/// Draws one line of antialiased UTF-8 text in the project's own typeface, which needs no font on
/// the machine. The typeface has the printable characters of ASCII, the minus sign, en dash, middle
/// dot and ellipsis. It draws any other character as an empty box. (x, y) is the point on the
/// baseline that `anchor` selects.
void draw_text(canvas& picture, std::string_view text, double x, double y, const text_style& style,
               text_anchor anchor = text_anchor::start,
               text_direction direction = text_direction::rightwards);

}  // namespace sluice::io
