// SPDX-License-Identifier: Apache-2.0
#include "tools/io/spectrogram_picture.hpp"

#include "tools/io/colour_map.hpp"

#include <sluice/runtime/error.hpp>

#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>
#include <string>

namespace sluice::io {

namespace {

constexpr colour no_number{128, 128, 128};
constexpr double dynamic_range = 80;

void check(const spectrogram_view& view) {
  const auto fail = [](const std::string& description) {
    throw error(errc::invalid_argument, "spectrogram: " + description);
  };
  if (view.bands < 1 || view.frames < 1) fail("needs at least one band and one frame");
  const auto size = static_cast<std::uint64_t>(view.decibels.size());
  if (size % static_cast<std::uint64_t>(view.bands) != 0 ||
      size / static_cast<std::uint64_t>(view.bands) != static_cast<std::uint64_t>(view.frames))
    fail(std::to_string(size) + " values do not match " + std::to_string(view.bands) +
         " bands of " + std::to_string(view.frames) + " frames");
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

}  // namespace

spectrogram_layout layout_of(std::int64_t bands, std::int64_t frames) {
  const area values{100, 50, extent(frames, 720, 960, 1440), extent(bands, 240, 520, 720)};
  const area scale{values.x + values.width + 30, values.y, 24, values.height};
  return {scale.x + scale.width + 90, values.y + values.height + 60, values, scale};
}

picture draw_spectrogram(const spectrogram_view& view) {
  check(view);
  const auto layout = layout_of(view.bands, view.frames);
  const area& values = layout.values;
  const decibel_range range = range_of(view.decibels);
  picture image(layout.width, layout.height);
  image.fill(values, [&](int column, int y) {
    const int row = values.height - 1 - y;  // row 0 of the matrix is at the bottom
    const float value = largest(view.decibels, static_cast<std::size_t>(view.frames),
                                first_value(row, values.height, view.bands),
                                end_value(row, values.height, view.bands),
                                first_value(column, values.width, view.frames),
                                end_value(column, values.width, view.frames));
    return std::isnan(value) ? no_number
                             : magma((double{value} - range.low) / (range.high - range.low));
  });
  image.fill(layout.scale, [&](int, int y) {
    return magma(1 - static_cast<double>(y) / (layout.scale.height - 1));
  });
  image.write(view.title, values.x, values.y - 22.0,
              {.size = 18, .bold = true, .longest = static_cast<double>(layout.width - values.x)});
  draw_axis(image, values, axis_side::below, view.times, "time (s)");
  draw_axis(image, values, axis_side::left, view.frequencies, "frequency (Hz), mel scale");
  draw_axis(image, layout.scale, axis_side::right, linear_ticks(range.low, range.high, 9),
            "level (dB), relative to the maximum");
  return image;
}

}  // namespace sluice::io
