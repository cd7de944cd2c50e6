// SPDX-License-Identifier: Apache-2.0
#include "tools/io/spectrogram_png.hpp"

#include "tools/io/colour_map.hpp"
#include "tools/io/output_file.hpp"

#include <sluice/runtime/error.hpp>

#include <png.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>
#include <string>

namespace sluice::io {

namespace {

constexpr colour no_number{128, 128, 128};
constexpr double dynamic_range = 80;

void check(const spectrogram_view& shown) {
  const auto fail = [](const std::string& what) {
    throw error(errc::invalid_argument, "spectrogram: " + what);
  };
  if (shown.bands < 1 || shown.frames < 1) fail("needs at least one band and one frame");
  const auto size = static_cast<std::uint64_t>(shown.decibels.size());
  if (size % static_cast<std::uint64_t>(shown.bands) != 0 ||
      size / static_cast<std::uint64_t>(shown.bands) != static_cast<std::uint64_t>(shown.frames))
    fail(std::to_string(size) + " values do not match " + std::to_string(shown.bands) +
         " bands of " + std::to_string(shown.frames) + " frames");
}

/// The number of pixels for `count` values: a whole number for each value, within `wanted` pixels
/// if possible, at least `least` and at most `most`.
int extent(std::int64_t count, int least, int wanted, int most) {
  if (count >= most) return most;
  const auto values = static_cast<int>(count);
  return std::max(least, values * std::max(1, wanted / values));
}

/// The index of the first of `count` values that pixel `pixel` of `pixels` shows.
std::size_t first_value(int pixel, int pixels, std::int64_t count) {
  return static_cast<std::size_t>(static_cast<std::int64_t>(pixel) * count / pixels);
}

std::size_t end_value(int pixel, int pixels, std::int64_t count) {
  return std::max(first_value(pixel, pixels, count) + 1, first_value(pixel + 1, pixels, count));
}

/// The largest value in a part of the matrix. NaN if all of its values are NaN.
float largest(std::span<const float> decibels, std::size_t frames, std::size_t band,
              std::size_t band_end, std::size_t frame, std::size_t frame_end) {
  float result = std::numeric_limits<float>::quiet_NaN();
  for (; band < band_end; ++band)
    for (std::size_t i = frame; i < frame_end; ++i) {
      const float value = decibels[band * frames + i];
      if (!(value <= result) && !std::isnan(value)) result = value;
    }
  return result;
}

struct decibel_range {
  double low = -dynamic_range;
  double high = 0;
};

decibel_range range_of(std::span<const float> decibels) {
  std::optional<float> high;
  for (const float value : decibels)
    if (std::isfinite(value) && (!high || value > *high)) high = value;
  if (!high) return {};
  return {double{*high} - dynamic_range, double{*high}};
}

/// A picture in memory: red, green and blue of each pixel, row by row.
struct picture {
  int width;
  int height;
  std::vector<std::uint8_t> bytes{};
};

picture draw(const spectrogram_view& shown) {
  picture drawn{extent(shown.frames, 720, 960, 1440), extent(shown.bands, 240, 520, 720)};
  drawn.bytes.reserve(static_cast<std::size_t>(drawn.width) *
                      static_cast<std::size_t>(drawn.height) * 3);
  const decibel_range range = range_of(shown.decibels);
  const auto frames = static_cast<std::size_t>(shown.frames);
  // Row 0 of the matrix is at the bottom.
  for (int row = drawn.height - 1; row >= 0; --row)
    for (int column = 0; column < drawn.width; ++column) {
      const float value = largest(
          shown.decibels, frames, first_value(row, drawn.height, shown.bands),
          end_value(row, drawn.height, shown.bands), first_value(column, drawn.width, shown.frames),
          end_value(column, drawn.width, shown.frames));
      const colour ink = std::isnan(value)
                             ? no_number
                             : magma((double{value} - range.low) / (range.high - range.low));
      drawn.bytes.insert(drawn.bytes.end(), {ink.red, ink.green, ink.blue});
    }
  return drawn;
}

std::vector<std::byte> encode(const picture& drawn) {
  png_image image{};
  image.version = PNG_IMAGE_VERSION;
  image.width = static_cast<png_uint_32>(drawn.width);
  image.height = static_cast<png_uint_32>(drawn.height);
  image.format = PNG_FORMAT_RGB;
  png_alloc_size_t size = PNG_IMAGE_PNG_SIZE_MAX(image);
  std::vector<std::byte> file(size);
  const int written =
      png_image_write_to_memory(&image, file.data(), &size, 0, drawn.bytes.data(), 0, nullptr);
  const std::string message = image.message;
  png_image_free(&image);
  if (written == 0)
    throw error(errc::library_failure, "the spectrogram could not be encoded: " + message,
                library_status{"libpng", static_cast<long>(image.warning_or_error)});
  file.resize(size);
  return file;
}

}  // namespace

std::vector<std::byte> render_spectrogram_png(const spectrogram_view& shown) {
  check(shown);
  return encode(draw(shown));
}

void write_spectrogram_png(const std::filesystem::path& path, const spectrogram_view& shown) {
  const std::vector<std::byte> file = render_spectrogram_png(shown);
  output_file target(path);
  target.write(file);
  target.commit();
}

}  // namespace sluice::io
