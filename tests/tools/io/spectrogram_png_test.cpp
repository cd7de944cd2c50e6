// SPDX-License-Identifier: Apache-2.0
#include "tools/io/spectrogram_png.hpp"

#include "tests/support/seed.hpp"
#include "tests/tools/io/files.hpp"
#include "tools/io/colour_map.hpp"
#include "tools/io/stroke_text.hpp"

#include <sluice/runtime/error.hpp>

#include <gtest/gtest.h>
#include <png.h>

#include <cmath>
#include <limits>
#include <random>
#include <set>
#include <string>
#include <tuple>
#include <vector>

namespace sluice::io {
namespace {

using test::expect_error;

struct picture {
  int width = 0;
  int height = 0;
  std::vector<std::uint8_t> bytes;
  [[nodiscard]] colour at(int x, int y) const {
    const auto offset = (static_cast<std::size_t>(y) * static_cast<std::size_t>(width) +
                         static_cast<std::size_t>(x)) *
                        3;
    return {bytes.at(offset), bytes.at(offset + 1), bytes.at(offset + 2)};
  }
};

picture decode(std::span<const std::byte> file) {
  png_image image{};
  image.version = PNG_IMAGE_VERSION;
  EXPECT_NE(png_image_begin_read_from_memory(&image, file.data(), file.size()), 0) << image.message;
  image.format = PNG_FORMAT_RGB;
  picture result{static_cast<int>(image.width), static_cast<int>(image.height),
                 std::vector<std::uint8_t>(PNG_IMAGE_SIZE(image))};
  EXPECT_NE(png_image_finish_read(&image, nullptr, result.bytes.data(), 0, nullptr), 0)
      << image.message;
  return result;
}

spectrogram_axes axes_of(std::int64_t bands, std::int64_t frames) {
  spectrogram_axes axes{bands, frames, {}, 0.01, "title", "subtitle"};
  for (std::int64_t i = 0; i < bands; ++i)
    axes.band_hertz.push_back(
        20.0 * std::pow(1000.0, static_cast<double>(i + 1) / static_cast<double>(bands)));
  return axes;
}

/// How many pixels have exactly this colour.
std::size_t count(const picture& image, colour wanted) {
  std::size_t found = 0;
  for (int y = 0; y < image.height; ++y)
    for (int x = 0; x < image.width; ++x) found += image.at(x, y) == wanted ? 1U : 0U;
  return found;
}

TEST(SpectrogramPng, AnySizeGivesAPictureOfModerateSize) {
  for (const auto& [bands, frames] :
       std::vector<std::pair<std::int64_t, std::int64_t>>{{1, 1},
                                                          {128, 1},
                                                          {1, 128},
                                                          {128, 134},
                                                          {512, 134},
                                                          {5000, 3},
                                                          {128, 1439},
                                                          {128, 1441},
                                                          {2, 100000}}) {
    SCOPED_TRACE(std::to_string(bands) + " x " + std::to_string(frames));
    const std::vector<float> values(static_cast<std::size_t>(bands * frames), -20);
    const picture image = decode(render_spectrogram_png(values, axes_of(bands, frames)));
    EXPECT_GE(image.width, 700);
    EXPECT_LE(image.width, 1800);
    EXPECT_GE(image.height, 300);
    EXPECT_LE(image.height, 1000);
  }
}

/// Rectangles of one colour each, at the right corners: low bands at the bottom, early frames left.
TEST(SpectrogramPng, ValuesAreWhereTheyBelong) {
  const std::vector<float> values{0, -20, -40, -80, -60, -100};
  const picture image = decode(render_spectrogram_png(values, axes_of(2, 3)));
  // The plot is found by its brightest rectangle, which is the lower left one.
  const colour brightest = magma(1);
  int left = image.width;
  int bottom = 0;
  int right = 0;
  int top = image.height;
  for (int y = 0; y < image.height; ++y)
    for (int x = 0; x < image.width * 3 / 4; ++x)
      if (image.at(x, y) == brightest) {
        left = std::min(left, x);
        right = std::max(right, x);
        top = std::min(top, y);
        bottom = std::max(bottom, y);
      }
  const int width = right - left + 1;
  const int height = bottom - top + 1;
  ASSERT_GT(width, 100);
  ASSERT_GT(height, 100);
  for (int band = 0; band < 2; ++band)
    for (int frame = 0; frame < 3; ++frame) {
      const double value = values[static_cast<std::size_t>(band * 3 + frame)];
      for (const double fraction : {0.02, 0.5, 0.98})
        EXPECT_EQ(image.at(left + static_cast<int>((frame + fraction) * width),
                           bottom - static_cast<int>((band + fraction) * height)),
                  magma((value + 80) / 80))
            << band << ", " << frame;
    }
}

TEST(SpectrogramPng, DownsamplingKeepsTheLargest) {
  auto generator = test::make_generator();
  std::vector<float> values(2000 * 20000, -80);
  const auto position = std::uniform_int_distribution<std::size_t>(0, values.size() - 1)(generator);
  SCOPED_TRACE(position);
  // The colour bar shows the brightest colour too, and the brightest value sets the scale.
  values[(position + values.size() / 2) % values.size()] = 0;
  const picture one = decode(render_spectrogram_png(values, axes_of(2000, 20000)));
  values[position] = 0;
  const picture two = decode(render_spectrogram_png(values, axes_of(2000, 20000)));
  EXPECT_EQ(count(two, magma(1)), count(one, magma(1)) + 1);
}

TEST(SpectrogramPng, ValuesThatAreNoNumbers) {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  const float infinite = std::numeric_limits<float>::infinity();
  const picture mixed = decode(
      render_spectrogram_png(std::vector<float>{nan, -infinite, infinite, -10}, axes_of(2, 2)));
  EXPECT_GT(count(mixed, colour{128, 128, 128}), 10000U);
  EXPECT_GT(count(mixed, magma(0)), 10000U);
  EXPECT_GT(count(mixed, magma(1)), 20000U);
  const picture none = decode(render_spectrogram_png(std::vector<float>(4, nan), axes_of(2, 2)));
  EXPECT_GT(count(none, colour{128, 128, 128}), 40000U);
  for (const float value : {std::numeric_limits<float>::max(), std::numeric_limits<float>::lowest(),
                            infinite, -infinite, 0.0F})
    EXPECT_FALSE(render_spectrogram_png(std::vector<float>(4, value), axes_of(2, 2)).empty());
}

TEST(SpectrogramPng, ShortTitlesAreDrawnAndLongOnesShortened) {
  const std::vector<float> values(4, 0);
  spectrogram_axes axes = axes_of(2, 2);
  const auto with = [&](std::string title, std::string subtitle) {
    axes.title = std::move(title);
    axes.subtitle = std::move(subtitle);
    return render_spectrogram_png(values, axes);
  };
  EXPECT_NE(with("a", ""), with("b", ""));
  EXPECT_NE(with("a", ""), with("a", "b"));
  EXPECT_EQ(decode(with("", "")).width, decode(with(std::string(10000, 'W'), "")).width);
  EXPECT_FALSE(with("\xff\xc3\xe2\x82 broken UTF-8 \xf0\x9f", "\xe2\x80\xa6").empty());
}

TEST(SpectrogramPng, SizesThatDoNotFitAreRefused) {
  const std::vector<float> values(6, 0);
  const auto refuse = [&](const spectrogram_axes& axes, std::string_view text) {
    expect_error(errc::invalid_argument, "spectrogram", text,
                 [&] { return render_spectrogram_png(values, axes); });
  };
  refuse(axes_of(2, 4), "do not make 2 bands of 4 frames");
  refuse(axes_of(4, 1), "do not make");
  refuse(axes_of(0, 6), "at least one band");
  refuse(axes_of(6, 0), "at least one band");
  spectrogram_axes axes = axes_of(2, 3);
  axes.frames = -3;
  refuse(axes, "at least one");
  axes = axes_of(2, 3);
  axes.band_hertz.pop_back();
  refuse(axes, "1 frequencies for 2 bands");
  axes = axes_of(2, 3);
  std::swap(axes.band_hertz[0], axes.band_hertz[1]);
  refuse(axes, "ascending");
  axes = axes_of(2, 3);
  axes.band_hertz[0] = std::numeric_limits<double>::quiet_NaN();
  refuse(axes, "finite");
  axes = axes_of(2, 3);
  axes.seconds_per_frame = 0;
  refuse(axes, "positive");
}

TEST(SpectrogramPng, WritesAFile) {
  const test::temporary_folder folder;
  const std::vector<float> values(4, 0);
  write_spectrogram_png(folder / "x.png", values, axes_of(2, 2));
  const std::string file = test::read_text(folder / "x.png");
  EXPECT_EQ(file.substr(0, 4), "\x89PNG");
  EXPECT_EQ(folder.entries(), 1);
}

TEST(Magma, AgreesWithThePublishedColours) {
  // Some of the 256 published colours that are not among the interpolated ones.
  const std::vector<std::tuple<int, colour>> published{
      {0, {0, 0, 4}}, {64, {81, 18, 124}}, {128, {183, 55, 121}}, {255, {252, 253, 191}}};
  for (const auto& [index, expected] : published) {
    const colour found = magma(index / 255.0);
    EXPECT_NEAR(found.red, expected.red, 2) << index;
    EXPECT_NEAR(found.green, expected.green, 2) << index;
    EXPECT_NEAR(found.blue, expected.blue, 2) << index;
  }
  EXPECT_EQ(magma(-1), magma(0));
  EXPECT_EQ(magma(2), magma(1));
  EXPECT_EQ(magma(std::numeric_limits<double>::quiet_NaN()), magma(0));
  // Perceptually ordered: lightness only grows.
  double previous = -1;
  for (int i = 0; i <= 1000; ++i) {
    const colour c = magma(i / 1000.0);
    const double lightness = 0.2126 * c.red + 0.7152 * c.green + 0.0722 * c.blue;
    EXPECT_GE(lightness, previous - 0.8) << i;
    previous = lightness;
  }
}

TEST(StrokeText, EveryCharacterHasItsOwnShape) {
  const text_style style{20, 2, {0, 0, 0}};
  std::set<std::vector<std::uint8_t>> shapes;
  for (char character = ' '; character <= '~'; ++character) {
    canvas picture(40, 40, {255, 255, 255});
    draw_text(picture, std::string(1, character), 10, 30, style);
    EXPECT_TRUE(shapes.emplace(picture.bytes().begin(), picture.bytes().end()).second)
        << character << " looks like another character";
  }
}

TEST(StrokeText, LengthAnchorsAndDirection) {
  const text_style style{12, 1.4, {0, 0, 0}};
  EXPECT_EQ(text_length("", style), 0);
  EXPECT_GT(text_length("ab", style), text_length("a", style));
  EXPECT_EQ(shortened("short", style, 1000), "short");
  const std::string cut = shortened("a very long text", style, 60);
  EXPECT_LE(text_length(cut, style), 60);
  EXPECT_TRUE(cut.ends_with("\u2026"));
  // Whole characters are left out: each of these has three bytes.
  for (int length = 0; length < 60; ++length)
    EXPECT_EQ(shortened("\u2212\u2212\u2212\u2212\u2212", style, length).size() % 3, 0U);

  const auto extent = [&](text_anchor anchor, text_direction direction) {
    canvas picture(200, 200, {255, 255, 255});
    draw_text(picture, "HHHH", 100, 100, style, anchor, direction);
    int left = 200, right = -1, top = 200, bottom = -1;
    for (int y = 0; y < 200; ++y)
      for (int x = 0; x < 200; ++x)
        if (picture.at(x, y).red < 128) {
          left = std::min(left, x);
          right = std::max(right, x);
          top = std::min(top, y);
          bottom = std::max(bottom, y);
        }
    return std::tuple(left, right, top, bottom);
  };
  const double length = text_length("HHHH", style);
  const auto [l0, r0, t0, b0] = extent(text_anchor::start, text_direction::rightwards);
  EXPECT_NEAR(l0, 100, 2);
  EXPECT_NEAR(r0, 100 + length, 2);
  EXPECT_NEAR(t0, 88, 2);
  EXPECT_NEAR(b0, 100, 2);
  const auto [l1, r1, t1, b1] = extent(text_anchor::end, text_direction::rightwards);
  EXPECT_NEAR(l1, 100 - length, 2);
  EXPECT_NEAR(r1, 100, 2);
  const auto [l2, r2, t2, b2] = extent(text_anchor::middle, text_direction::upwards);
  EXPECT_NEAR(l2, 88, 2);
  EXPECT_NEAR(r2, 100, 2);
  EXPECT_NEAR((t2 + b2) / 2.0, 100, 2);
  EXPECT_NEAR(b2 - t2, length, 3);
  EXPECT_EQ(t1, t0);
  EXPECT_EQ(b1, b0);
}

TEST(StrokeText, OutsideOfThePictureNothingIsDrawn) {
  canvas picture(5, 5, {255, 255, 255});
  draw_text(picture, "everything outside", -1000, -1000, {12, 2, {0, 0, 0}});
  draw_text(picture, "W", 2, 2, {400, 30, {0, 0, 0}});
  EXPECT_EQ(picture.bytes().size(), 75U);
}

}  // namespace
}  // namespace sluice::io
