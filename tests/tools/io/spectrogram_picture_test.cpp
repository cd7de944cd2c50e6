// SPDX-License-Identifier: Apache-2.0
#include "tools/io/spectrogram_picture.hpp"

#include "tests/support/seed.hpp"
#include "tests/tools/io/files.hpp"
#include "tools/io/colour_map.hpp"

#include <sluice/runtime/error.hpp>

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <random>
#include <string>
#include <tuple>
#include <vector>

namespace sluice::io {
namespace {

using test::expect_error;

/// The colours of the spectrogram alone.
picture values_of(const spectrogram_view& shown) {
  const picture drawn = draw_spectrogram(shown);
  const auto layout = layout_of(shown.bands, shown.frames);
  EXPECT_EQ(drawn.width(), layout.width);
  EXPECT_EQ(drawn.height(), layout.height);
  picture values(layout.values.width, layout.values.height);
  values.fill({0, 0, values.width(), values.height()},
              [&](int x, int y) { return drawn.at(layout.values.x + x, layout.values.y + y); });
  return values;
}

/// How many pixels have exactly this colour.
std::size_t count(const picture& image, colour wanted) {
  std::size_t found = 0;
  for (int y = 0; y < image.height(); ++y)
    for (int x = 0; x < image.width(); ++x) found += image.at(x, y) == wanted ? 1U : 0U;
  return found;
}

TEST(SpectrogramPicture, AnySizeGivesAPictureOfModerateSize) {
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
    const picture image = values_of({values, bands, frames});
    EXPECT_GE(image.width(), 720);
    EXPECT_LE(image.width(), 1440);
    EXPECT_GE(image.height(), 240);
    EXPECT_LE(image.height(), 720);
  }
}

/// Rectangles of one colour each, at the right corners: low bands at the bottom, early frames left.
TEST(SpectrogramPicture, ValuesAreWhereTheyBelong) {
  const std::vector<float> values{0, -20, -40, -80, -60, -100};
  const picture image = values_of({values, 2, 3});
  for (int band = 0; band < 2; ++band)
    for (int frame = 0; frame < 3; ++frame) {
      const double value = values[static_cast<std::size_t>(band * 3 + frame)];
      for (const double fraction : {0.02, 0.5, 0.98})
        EXPECT_EQ(
            image.at(static_cast<int>((frame + fraction) / 3 * image.width()),
                     image.height() - 1 - static_cast<int>((band + fraction) / 2 * image.height())),
            magma((value + 80) / 80))
            << band << ", " << frame;
    }
}

TEST(SpectrogramPicture, DownsamplingKeepsTheLargest) {
  auto generator = test::make_generator();
  std::vector<float> values(2000 * 20000, -80);
  const auto position = std::uniform_int_distribution<std::size_t>(0, values.size() - 1)(generator);
  SCOPED_TRACE(position);
  // The brightest value sets the scale.
  values[(position + values.size() / 2) % values.size()] = 0;
  const picture one = values_of({values, 2000, 20000});
  values[position] = 0;
  const picture two = values_of({values, 2000, 20000});
  EXPECT_EQ(count(two, magma(1)), count(one, magma(1)) + 1);
}

TEST(SpectrogramPicture, ValuesThatAreNoNumbers) {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  const float infinite = std::numeric_limits<float>::infinity();
  const std::vector<float> values{nan, -infinite, infinite, -10};
  const picture mixed = values_of({values, 2, 2});
  const auto quarter = static_cast<std::size_t>(mixed.width() * mixed.height() / 4);
  EXPECT_EQ(count(mixed, colour{128, 128, 128}), quarter);
  EXPECT_EQ(count(mixed, magma(0)), quarter);
  EXPECT_EQ(count(mixed, magma(1)), 2 * quarter);
  const std::vector<float> nothing(4, nan);
  EXPECT_EQ(count(values_of({nothing, 2, 2}), colour{128, 128, 128}), 4 * quarter);
  for (const float value : {std::numeric_limits<float>::max(), std::numeric_limits<float>::lowest(),
                            infinite, -infinite, 0.0F})
    EXPECT_FALSE(draw_spectrogram({std::vector<float>(4, value), 2, 2}).png().empty());
}

TEST(SpectrogramPicture, SizesThatDoNotFitAreRefused) {
  const std::vector<float> values(6, 0);
  const auto refuse = [&](std::int64_t bands, std::int64_t frames, std::string_view text) {
    expect_error(errc::invalid_argument, "spectrogram", text, [&] {
      return draw_spectrogram({values, bands, frames});
    });
  };
  refuse(2, 4, "do not match 2 bands of 4 frames");
  refuse(4, 1, "do not match");
  refuse(0, 6, "at least one band");
  refuse(6, 0, "at least one band");
  refuse(2, -3, "at least one");
}

/// The scale has the colours of 80 dB, the largest at the top.
TEST(SpectrogramPicture, HasAScaleOfColours) {
  const std::vector<float> values{12, -3};
  const auto layout = layout_of(1, 2);
  const picture drawn = draw_spectrogram({values, 1, 2});
  const area& scale = layout.scale;
  EXPECT_EQ(drawn.at(scale.x, scale.y), magma(1));
  EXPECT_EQ(drawn.at(scale.x + scale.width - 1, scale.y + scale.height - 1), magma(0));
  EXPECT_EQ(drawn.at(scale.x + 5, scale.y + scale.height / 2),
            magma(1 - (scale.height / 2) / (scale.height - 1.0)));
  // Marks at 10 dB, 0 dB ... -60 dB of a scale from -68 to 12 dB.
  int marks = 0;
  for (int y = 0; y < scale.height; ++y)
    if (drawn.at(scale.x + scale.width, scale.y + y) == black) ++marks;
  EXPECT_EQ(marks, 8);
}

TEST(SpectrogramPicture, TheAxesAreAtItsSides) {
  const std::vector<float> values(6, 0);
  const auto layout = layout_of(2, 3);
  const picture drawn = draw_spectrogram({.decibels = values,
                                          .bands = 2,
                                          .frames = 3,
                                          .title = "title",
                                          .times = {{0.5, "1"}},
                                          .frequencies = {{0.25, "100"}}});
  const area& part = layout.values;
  const int bottom = part.y + part.height;
  EXPECT_EQ(drawn.at(part.x + part.width / 2, bottom), black);
  EXPECT_EQ(drawn.at(part.x - 1, bottom - 1 - part.height / 4), black);
  EXPECT_EQ(drawn.at(part.x + part.width / 4, bottom), white);
  EXPECT_EQ(drawn.at(part.x - 1, part.y + part.height / 2), white);
}

TEST(SpectrogramPicture, EqualValuesAreTheLargest) {
  for (const float value : {-30.0F, 0.0F, 7.0F}) {
    const picture image = values_of({std::vector<float>(12, value), 3, 4});
    EXPECT_EQ(count(image, magma(1)), static_cast<std::size_t>(image.width() * image.height()));
  }
}

}  // namespace
}  // namespace sluice::io
