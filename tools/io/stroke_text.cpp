// SPDX-License-Identifier: Apache-2.0
#include "tools/io/stroke_text.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <iterator>
#include <limits>
#include <map>
#include <numbers>
#include <utility>
#include <vector>

namespace sluice::io {

namespace {

struct point {
  double x = 0;
  double y = 0;
};
using polyline = std::vector<point>;

/// A character: its strokes, relative to the baseline, and the distance to the next character.
struct glyph {
  std::vector<polyline> strokes;
  double advance = 0;
};

/// A character as a drawing with a pen. A capital letter is 20 units high, a small one 14. The
/// drawing is a sequence of commands:
///   M x y                    lift the pen and put it down here
///   L x y                    a straight line to here
///   A x y rx ry from to      a straight line to, then an arc of, the ellipse around (x, y); angles
///                            in degrees
///   O x y rx ry              a whole ellipse
///   P x y                    a point
///   /                        lift the pen
struct drawing {
  char32_t character;
  double width;
  const char* commands;
};

constexpr double character_space = 5.2;

constexpr std::array drawings{
    drawing{U' ', 2, ""},
    drawing{U'!', 0, "M 0 20 L 0 6.5 P 0 0.4"},
    drawing{U'"', 5, "M 0 20 L 0 14 M 5 20 L 5 14"},
    drawing{U'#', 13, "M 5 19 L 2.5 1 M 10.5 19 L 8 1 M 1 13 L 13 13 M 0 7 L 12 7"},
    drawing{U'$', 12.2, "A 6.3 14.1 5 3.9 35 270 A 6.3 6.1 5.8 4.1 90 -145 M 6.3 21.5 L 6.3 -1.5"},
    drawing{U'%', 16, "O 3.6 15.6 3.6 4.4 O 12.4 4.4 3.6 4.4 M 13 20 L 3 0"},
    drawing{U'&', 14,
            "M 14 0 L 2.6 13.2 A 5.8 16 3.9 4 215 -20 L 3 9.4 A 5.2 4.9 5.2 4.9 115 310 L 13 9"},
    drawing{U'\'', 0, "M 0 20 L 0 14"},
    drawing{U'(', 4.5, "A 9 8 9 14 120 240"},
    drawing{U')', 4.5, "A -4.5 8 9 14 60 -60"},
    drawing{U'*', 9, "M 4.5 20 L 4.5 11 M 0.5 17.8 L 8.5 13.2 M 8.5 17.8 L 0.5 13.2"},
    drawing{U'+', 12, "M 6 4 L 6 16 M 0 10 L 12 10"},
    drawing{U',', 1, "M 1 0.6 L 0 -4"},
    drawing{U'-', 6.5, "M 0 7.6 L 6.5 7.6"},
    drawing{U'.', 0, "P 0 0.4"},
    drawing{U'/', 8, "M 0 -2 L 8 22"},
    drawing{U'0', 12, "M 0 13 A 6 13 6 7 180 0 A 6 7 6 7 0 -180 L 0 13"},
    drawing{U'1', 12, "M 2.5 16.6 L 7.5 20 L 7.5 0"},
    drawing{U'2', 12, "A 6 14.2 5.8 5.8 168 -38 L 0.3 0 L 12 0"},
    drawing{U'3', 12, "A 5.8 15.3 5.1 4.7 155 -90 A 5.8 5.3 6 5.3 90 -155"},
    drawing{U'4', 12, "M 9.2 0 L 9.2 20 L 0 6 L 12.4 6"},
    drawing{U'5', 12, "M 11 20 L 2.4 20 L 1.4 11.2 A 5.7 6.5 6.2 6.5 134 -150"},
    drawing{U'6', 12, "O 6 6.3 6 6.3 A 9.5 6.3 9.5 13.7 180 98"},
    drawing{U'7', 12, "M 0 20 L 12 20 L 4.2 0"},
    drawing{U'8', 12, "O 6 15.3 4.9 4.7 O 6 5.3 6 5.3"},
    drawing{U'9', 12, "O 6 13.7 6 6.3 A 2.5 13.7 9.5 13.7 0 -82"},
    drawing{U':', 0, "P 0 12.6 P 0 0.4"},
    drawing{U';', 1, "P 0.8 12.6 M 1 0.6 L 0 -4"},
    drawing{U'<', 12, "M 12 16.5 L 0 10 L 12 3.5"},
    drawing{U'=', 12, "M 0 13 L 12 13 M 0 7 L 12 7"},
    drawing{U'>', 12, "M 0 16.5 L 12 10 L 0 3.5"},
    drawing{U'?', 10.6, "A 5.3 14.8 5.3 5.2 165 -52 L 5.3 6.5 P 5.3 0.4"},
    drawing{U'@', 21,
            "O 10.5 7.4 4.6 5 M 15.1 12.2 L 15.1 6 A 18 6 2.9 3.6 180 320 "
            "A 10.5 7.4 10.5 11.4 -20 295"},
    drawing{U'A', 15, "M 0 0 L 7.5 20 L 15 0 M 2.6 7 L 12.4 7"},
    drawing{U'B', 12.8,
            "M 0 10.6 L 7 10.6 A 7 15.3 4.7 4.7 -90 90 L 0 20 L 0 0 L 7.5 0 "
            "A 7.5 5.3 5.3 5.3 -90 90"},
    drawing{U'C', 14.6, "A 8.4 10 8.4 10 44 316"},
    drawing{U'D', 14.4, "M 0 0 L 0 20 L 5.6 20 A 5.6 10 8.8 10 90 -90 L 0 0"},
    drawing{U'E', 11, "M 11 20 L 0 20 L 0 0 L 11 0 M 0 10.4 L 9.6 10.4"},
    drawing{U'F', 10.6, "M 10.6 20 L 0 20 L 0 0 M 0 10 L 9.2 10"},
    drawing{U'G', 16, "A 8.4 10 8.4 10 44 352 L 16.6 9.4 L 9.6 9.4"},
    drawing{U'H', 14, "M 0 0 L 0 20 M 14 0 L 14 20 M 0 10.4 L 14 10.4"},
    drawing{U'I', 0, "M 0 0 L 0 20"},
    drawing{U'J', 9, "M 9 20 L 9 5.4 A 4.5 5.4 4.5 5.4 0 -165"},
    drawing{U'K', 12.6, "M 0 0 L 0 20 M 12 20 L 0 8 M 4.6 12.6 L 12.6 0"},
    drawing{U'L', 10.4, "M 0 20 L 0 0 L 10.4 0"},
    drawing{U'M', 17, "M 0 0 L 0 20 L 8.5 6 L 17 20 L 17 0"},
    drawing{U'N', 14, "M 0 0 L 0 20 L 14 0 L 14 20"},
    drawing{U'O', 17, "O 8.5 10 8.5 10"},
    drawing{U'P', 12.2, "M 0 0 L 0 20 L 6.8 20 A 6.8 14.6 5.4 5.4 90 -90 L 0 9.2"},
    drawing{U'Q', 17, "O 8.5 10 8.5 10 M 10.6 5 L 16.6 -1.6"},
    drawing{U'R', 12.8,
            "M 0 0 L 0 20 L 6.8 20 A 6.8 14.7 5.4 5.3 90 -90 L 0 9.4 M 6.4 9.4 L 12.8 0"},
    drawing{U'S', 12.4, "A 6.3 15.2 5.4 4.8 35 270 A 6.3 5.2 6.1 5.2 90 -148"},
    drawing{U'T', 14, "M 0 20 L 14 20 M 7 20 L 7 0"},
    drawing{U'U', 13.6, "M 0 20 L 0 7 A 6.8 7 6.8 7 180 360 L 13.6 20"},
    drawing{U'V', 14.4, "M 0 20 L 7.2 0 L 14.4 20"},
    drawing{U'W', 22, "M 0 20 L 5.6 0 L 11 18.4 L 16.4 0 L 22 20"},
    drawing{U'X', 13, "M 0 20 L 13 0 M 13 20 L 0 0"},
    drawing{U'Y', 13.6, "M 0 20 L 6.8 9.6 L 13.6 20 M 6.8 9.6 L 6.8 0"},
    drawing{U'Z', 13, "M 0.4 20 L 12.8 20 L 0 0 L 13 0"},
    drawing{U'[', 4.5, "M 4.5 22 L 0 22 L 0 -4 L 4.5 -4"},
    drawing{U'\\', 8, "M 0 22 L 8 -2"},
    drawing{U']', 4.5, "M 0 22 L 4.5 22 L 4.5 -4 L 0 -4"},
    drawing{U'^', 10, "M 0 13 L 5 20 L 10 13"},
    drawing{U'_', 12, "M 0 -3 L 12 -3"},
    drawing{U'`', 3, "M 0 20 L 3 16.6"},
    drawing{U'a', 11, "O 5.5 7 5.5 7 M 11 14 L 11 0"},
    drawing{U'b', 11, "M 0 20 L 0 0 / O 5.5 7 5.5 7"},
    drawing{U'c', 10, "A 5.9 7 5.9 7 46 314"},
    drawing{U'd', 11, "O 5.5 7 5.5 7 M 11 20 L 11 0"},
    drawing{U'e', 11.4, "M 0 7.4 L 11.4 7.4 A 5.7 7 5.7 7 3 316"},
    drawing{U'f', 6.8, "A 6.8 15.4 3.8 4.6 75 180 L 3 0 M 0 13.4 L 7 13.4"},
    drawing{U'g', 11, "O 5.5 7 5.5 7 M 11 14 L 11 -0.4 A 5.7 -0.4 5.3 5.2 0 -150"},
    drawing{U'h', 10.4, "M 0 20 L 0 0 M 0 8.6 A 5.2 8.6 5.2 5.4 180 0 L 10.4 0"},
    drawing{U'i', 0, "M 0 14 L 0 0 P 0 19"},
    drawing{U'j', 2, "M 2 14 L 2 -2.4 A -1.2 -2.4 3.2 3.2 0 -80 P 2 19"},
    drawing{U'k', 9.6, "M 0 20 L 0 0 M 9 14 L 0 5.2 M 3.4 8.5 L 9.8 0"},
    drawing{U'l', 2.4, "M 0 20 L 0 3 A 3 3 3 3 180 258"},
    drawing{U'm', 17.6,
            "M 0 14 L 0 0 M 0 9 A 4.4 9 4.4 5 180 0 L 8.8 0 M 8.8 9 "
            "A 13.2 9 4.4 5 180 0 L 17.6 0"},
    drawing{U'n', 10.4, "M 0 14 L 0 0 M 0 8.6 A 5.2 8.6 5.2 5.4 180 0 L 10.4 0"},
    drawing{U'o', 12, "O 6 7 6 7"},
    drawing{U'p', 11, "M 0 14 L 0 -6 / O 5.5 7 5.5 7"},
    drawing{U'q', 11, "O 5.5 7 5.5 7 M 11 14 L 11 -6"},
    drawing{U'r', 5.6, "M 0 14 L 0 0 M 0 8.6 A 5 8.6 5 5.4 180 78"},
    drawing{U's', 9.2, "A 4.7 10.6 4.1 3.4 35 270 A 4.7 3.6 4.6 3.6 90 -148"},
    drawing{U't', 7, "M 3 18.6 L 3 4 A 6.6 4 3.6 4 180 285 M 0 13.4 L 7.2 13.4"},
    drawing{U'u', 10.4, "M 0 14 L 0 5.4 A 5.2 5.4 5.2 5.4 180 360 M 10.4 14 L 10.4 0"},
    drawing{U'v', 10.8, "M 0 14 L 5.4 0 L 10.8 14"},
    drawing{U'w', 17.2, "M 0 14 L 4.3 0 L 8.6 12.6 L 12.9 0 L 17.2 14"},
    drawing{U'x', 10, "M 0 14 L 10 0 M 10 14 L 0 0"},
    drawing{U'y', 10.8, "M 0 14 L 5.4 0 M 10.8 14 L 3.1 -6"},
    drawing{U'z', 10, "M 0.4 14 L 9.8 14 L 0 0 L 10 0"},
    drawing{U'{', 6, "A 6 18.8 3 3.2 90 180 L 3 12 L 0 9 L 3 6 A 6 -0.8 3 3.2 180 270"},
    drawing{U'|', 0, "M 0 22 L 0 -4"},
    drawing{U'}', 6, "A 0 18.8 3 3.2 90 0 L 3 12 L 6 9 L 3 6 A 0 -0.8 3 3.2 0 -90"},
    drawing{U'~', 13, "A 3.2 9 3.2 2.6 170 20 L 6.5 9.4 A 9.8 10.6 3.2 2.6 -160 -10"},
    drawing{U'\u00b7', 0, "P 0 8"},
    drawing{U'\u2013', 11, "M 0 7.6 L 11 7.6"},
    drawing{U'\u2026', 12, "P 0 0.4 P 6 0.4 P 12 0.4"},
    drawing{U'\u2212', 11, "M 0 10 L 11 10"},
};
constexpr drawing missing_character{U'\ufffd', 11, "M 0 0 L 0 20 L 11 20 L 11 0 L 0 0"};

/// Carries out the commands of one drawing.
class pen {
 public:
  explicit pen(const char* commands) : next_(commands) {}

  std::vector<polyline> draw() {
    for (; *next_ != '\0'; ++next_) {
      const char command = *next_;
      if (command == ' ') continue;
      ++next_;
      carry_out(command);
      if (*next_ == '\0') break;
    }
    lift();
    return std::move(strokes_);
  }

 private:
  double number() {
    char* end = nullptr;
    const double value = std::strtod(next_, &end);
    next_ = end;
    return value;
  }

  void lift() {
    if (!stroke_.empty()) strokes_.push_back(std::move(stroke_));
    stroke_.clear();
  }

  void arc(point centre, double rx, double ry, double from, double to) {
    constexpr double degrees_per_piece = 7.5;
    const int pieces =
        std::max(1, static_cast<int>(std::ceil(std::abs(to - from) / degrees_per_piece)));
    for (int i = 0; i <= pieces; ++i) {
      const double angle = (from + (to - from) * i / pieces) * std::numbers::pi / 180;
      stroke_.push_back({centre.x + rx * std::cos(angle), centre.y + ry * std::sin(angle)});
    }
  }

  void carry_out(char command) {
    if (command == '/') {
      lift();
      return;
    }
    const double x = number();
    const double y = number();
    switch (command) {
      case 'M':
        lift();
        stroke_.push_back({x, y});
        break;
      case 'L':
        stroke_.push_back({x, y});
        break;
      case 'P':
        lift();
        stroke_ = {{x, y}, {x, y}};
        lift();
        break;
      case 'O': {
        lift();
        const double rx = number();
        const double ry = number();
        arc({x, y}, rx, ry, 0, 360);
        lift();
        break;
      }
      default: {
        const double rx = number();
        const double ry = number();
        const double from = number();
        const double to = number();
        arc({x, y}, rx, ry, from, to);
        break;
      }
    }
  }

  const char* next_;
  std::vector<polyline> strokes_;
  polyline stroke_;
};

glyph make_glyph(const drawing& source) {
  return {pen(source.commands).draw(), source.width + character_space};
}

const glyph& glyph_of(char32_t character) {
  static const std::map<char32_t, glyph> glyphs = [] {
    std::map<char32_t, glyph> all;
    for (const drawing& source : drawings) all.emplace(source.character, make_glyph(source));
    return all;
  }();
  static const glyph missing = make_glyph(missing_character);
  const auto found = glyphs.find(character);
  return found == glyphs.end() ? missing : found->second;
}

/// The characters of UTF-8 text. An invalid byte becomes U+FFFD.
std::u32string characters_of(std::string_view text) {
  std::u32string characters;
  for (std::size_t i = 0; i < text.size();) {
    const auto lead = static_cast<unsigned char>(text[i++]);
    const int following = lead < 0x80 ? 0 : lead >= 0xf0 ? 3 : lead >= 0xe0 ? 2 : 1;
    if (lead >= 0x80 && (lead < 0xc2 || lead > 0xf4)) {
      characters += U'\ufffd';
      continue;
    }
    auto value = static_cast<char32_t>(following == 0 ? lead : lead & (0x3f >> following));
    int read = 0;
    for (; read < following && i < text.size(); ++read, ++i) {
      const auto byte = static_cast<unsigned char>(text[i]);
      if ((byte & 0xc0) != 0x80) break;
      value = value << 6 | (byte & 0x3f);
    }
    characters += read == following ? value : U'\ufffd';
  }
  return characters;
}

double scale_of(const text_style& style) {
  return style.cap_height / 20;
}

/// In whole pixels, so that equal letters look equal.
double advance_of(char32_t character, const text_style& style) {
  return std::round(glyph_of(character).advance * scale_of(style));
}

double length_of(const std::u32string& characters, const text_style& style) {
  double length = 0;
  for (const char32_t character : characters) length += advance_of(character, style);
  // The space after the last letter does not count.
  return std::max(0.0, length - std::round(character_space * scale_of(style)));
}

double distance_to_segment(point p, point a, point b) {
  const double dx = b.x - a.x;
  const double dy = b.y - a.y;
  const double square = dx * dx + dy * dy;
  const double along =
      square == 0 ? 0.0 : std::clamp(((p.x - a.x) * dx + (p.y - a.y) * dy) / square, 0.0, 1.0);
  return std::hypot(p.x - (a.x + along * dx), p.y - (a.y + along * dy));
}

/// Draws the strokes of one character, with points in pixels. Draws each pixel once.
void draw_strokes(canvas& picture, const std::vector<polyline>& strokes, const text_style& style) {
  const double reach = style.stroke / 2 + 1;
  point low{std::numeric_limits<double>::max(), std::numeric_limits<double>::max()};
  point high{std::numeric_limits<double>::lowest(), std::numeric_limits<double>::lowest()};
  for (const polyline& stroke : strokes)
    for (const point& p : stroke) {
      low = {std::min(low.x, p.x), std::min(low.y, p.y)};
      high = {std::max(high.x, p.x), std::max(high.y, p.y)};
    }
  if (low.x > high.x) return;
  for (int y = static_cast<int>(std::floor(low.y - reach)); y <= high.y + reach; ++y)
    for (int x = static_cast<int>(std::floor(low.x - reach)); x <= high.x + reach; ++x) {
      const point centre{x + 0.5, y + 0.5};
      double distance = reach;
      for (const polyline& stroke : strokes)
        for (std::size_t i = 1; i < stroke.size(); ++i)
          distance = std::min(distance, distance_to_segment(centre, stroke[i - 1], stroke[i]));
      const double opacity = style.stroke / 2 + 0.5 - distance;
      if (opacity > 0) picture.draw_pixel(x, y, style.ink, opacity);
    }
}

}  // namespace

double text_length(std::string_view text, const text_style& style) {
  return length_of(characters_of(text), style);
}

std::string shortened(std::string_view text, const text_style& style, double length) {
  if (text_length(text, style) <= length) return std::string(text);
  std::string kept(text);
  while (!kept.empty()) {
    // Removes one whole character.
    while (kept.size() > 1 && (static_cast<unsigned char>(kept.back()) & 0xc0) == 0x80)
      kept.pop_back();
    kept.pop_back();
    if (text_length(kept + "\u2026", style) <= length) break;
  }
  return kept + "\u2026";
}

void draw_text(canvas& picture, std::string_view text, double x, double y, const text_style& style,
               text_anchor anchor, text_direction direction) {
  const std::u32string characters = characters_of(text);
  const double length = length_of(characters, style);
  const double scale = scale_of(style);
  double along = anchor == text_anchor::start    ? 0
                 : anchor == text_anchor::middle ? -std::round(length / 2)
                                                 : -length;
  for (const char32_t character : characters) {
    std::vector<polyline> strokes = glyph_of(character).strokes;
    for (polyline& stroke : strokes)
      for (point& p : stroke) {
        const double right = along + p.x * scale;
        const double up = p.y * scale;
        p = direction == text_direction::rightwards ? point{x + right, y - up}
                                                    : point{x - up, y - right};
      }
    draw_strokes(picture, strokes, style);
    along += advance_of(character, style);
  }
}

}  // namespace sluice::io
