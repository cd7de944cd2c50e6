// SPDX-License-Identifier: Apache-2.0
#include "tools/io/spectrogram_png.hpp"

#include "tests/support/seed.hpp"
#include "tests/tools/io/files.hpp"
#include "tools/io/colour_map.hpp"

#include <sluice/runtime/error.hpp>

#include <gtest/gtest.h>
#include <png.h>

#include <cmath>
#include <limits>
#include <random>
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
    const picture image = decode(render_spectrogram_png({values, bands, frames}));
    EXPECT_GE(image.width, 720);
    EXPECT_LE(image.width, 1440);
    EXPECT_GE(image.height, 240);
    EXPECT_LE(image.height, 720);
  }
}

/// Rectangles of one colour each, at the right corners: low bands at the bottom, early frames left.
TEST(SpectrogramPng, ValuesAreWhereTheyBelong) {
  const std::vector<float> values{0, -20, -40, -80, -60, -100};
  const picture image = decode(render_spectrogram_png({values, 2, 3}));
  for (int band = 0; band < 2; ++band)
    for (int frame = 0; frame < 3; ++frame) {
      const double value = values[static_cast<std::size_t>(band * 3 + frame)];
      for (const double fraction : {0.02, 0.5, 0.98})
        EXPECT_EQ(
            image.at(static_cast<int>((frame + fraction) / 3 * image.width),
                     image.height - 1 - static_cast<int>((band + fraction) / 2 * image.height)),
            magma((value + 80) / 80))
            << band << ", " << frame;
    }
}

TEST(SpectrogramPng, DownsamplingKeepsTheLargest) {
  auto generator = test::make_generator();
  std::vector<float> values(2000 * 20000, -80);
  const auto position = std::uniform_int_distribution<std::size_t>(0, values.size() - 1)(generator);
  SCOPED_TRACE(position);
  // The brightest value sets the scale.
  values[(position + values.size() / 2) % values.size()] = 0;
  const picture one = decode(render_spectrogram_png({values, 2000, 20000}));
  values[position] = 0;
  const picture two = decode(render_spectrogram_png({values, 2000, 20000}));
  EXPECT_EQ(count(two, magma(1)), count(one, magma(1)) + 1);
}

TEST(SpectrogramPng, ValuesThatAreNoNumbers) {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  const float infinite = std::numeric_limits<float>::infinity();
  const std::vector<float> values{nan, -infinite, infinite, -10};
  const picture mixed = decode(render_spectrogram_png({values, 2, 2}));
  const auto quarter = static_cast<std::size_t>(mixed.width * mixed.height / 4);
  EXPECT_EQ(count(mixed, colour{128, 128, 128}), quarter);
  EXPECT_EQ(count(mixed, magma(0)), quarter);
  EXPECT_EQ(count(mixed, magma(1)), 2 * quarter);
  const std::vector<float> nothing(4, nan);
  EXPECT_EQ(count(decode(render_spectrogram_png({nothing, 2, 2})), colour{128, 128, 128}),
            4 * quarter);
  for (const float value : {std::numeric_limits<float>::max(), std::numeric_limits<float>::lowest(),
                            infinite, -infinite, 0.0F})
    EXPECT_FALSE(render_spectrogram_png({std::vector<float>(4, value), 2, 2}).empty());
}

TEST(SpectrogramPng, SizesThatDoNotFitAreRefused) {
  const std::vector<float> values(6, 0);
  const auto refuse = [&](std::int64_t bands, std::int64_t frames, std::string_view text) {
    expect_error(errc::invalid_argument, "spectrogram", text, [&] {
      return render_spectrogram_png({values, bands, frames});
    });
  };
  refuse(2, 4, "do not match 2 bands of 4 frames");
  refuse(4, 1, "do not match");
  refuse(0, 6, "at least one band");
  refuse(6, 0, "at least one band");
  refuse(2, -3, "at least one");
}

TEST(SpectrogramPng, WritesAFile) {
  const test::temporary_folder folder;
  const std::vector<float> values(4, 0);
  write_spectrogram_png(folder / "x.png", {values, 2, 2});
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

}  // namespace
}  // namespace sluice::io
