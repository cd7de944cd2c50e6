// SPDX-License-Identifier: Apache-2.0
#include "tools/io/spectrogram_png.hpp"

#include "tools/io/axis_ticks.hpp"
#include "tools/io/canvas.hpp"
#include "tools/io/colour_map.hpp"
#include "tools/io/output_file.hpp"
#include "tools/io/stroke_text.hpp"

#include <sluice/runtime/error.hpp>

#include <png.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>

namespace sluice::io {

namespace {

constexpr colour background{255, 255, 255};
constexpr colour dark_ink{33, 37, 46};
constexpr colour light_ink{110, 116, 128};
constexpr colour line_ink{150, 156, 168};
constexpr colour no_number{128, 128, 128};

constexpr text_style title_style{15, 1.9, dark_ink};
constexpr text_style subtitle_style{10, 1.25, light_ink};
constexpr text_style label_style{10, 1.25, dark_ink};
constexpr text_style axis_style{11, 1.4, dark_ink};

constexpr double dynamic_range = 80;

struct rectangle {
  int x = 0;
  int y = 0;
  int width = 0;
  int height = 0;
  [[nodiscard]] int right() const noexcept { return x + width; }
  [[nodiscard]] int bottom() const noexcept { return y + height; }
};

constexpr int margin_left = 104;
constexpr int margin_right = 120;
constexpr int margin_top = 78;
constexpr int margin_bottom = 72;
constexpr int colour_bar_gap = 22;
constexpr int colour_bar_width = 18;
constexpr int tick_length = 6;

void check(std::span<const float> decibels, const spectrogram_axes& axes) {
  const auto fail = [](const std::string& what) {
    throw error(errc::invalid_argument, "spectrogram: " + what);
  };
  if (axes.bands < 1 || axes.frames < 1) fail("at least one band and one frame needed");
  const auto size = static_cast<std::uint64_t>(decibels.size());
  if (size % static_cast<std::uint64_t>(axes.bands) != 0 ||
      size / static_cast<std::uint64_t>(axes.bands) != static_cast<std::uint64_t>(axes.frames))
    fail(std::to_string(size) + " values do not make " + std::to_string(axes.bands) + " bands of " +
         std::to_string(axes.frames) + " frames");
  if (axes.band_hertz.size() != static_cast<std::size_t>(axes.bands))
    fail(std::to_string(axes.band_hertz.size()) + " frequencies for " + std::to_string(axes.bands) +
         " bands");
  for (std::size_t i = 0; i < axes.band_hertz.size(); ++i)
    if (!std::isfinite(axes.band_hertz[i]) ||
        (i > 0 && !(axes.band_hertz[i - 1] < axes.band_hertz[i])))
      fail("the frequencies of the bands must be finite and ascending");
  if (!(axes.seconds_per_frame > 0) || !std::isfinite(axes.seconds_per_frame))
    fail("the time from frame to frame must be positive");
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

/// The frequency axis from the lower edge of the first band to the upper edge of the last. All
/// bands are equally high.
class frequency_scale {
 public:
  explicit frequency_scale(const std::vector<double>& hertz) : hertz_(hertz) {}

  [[nodiscard]] double low() const { return std::max(std::min(0.0, hertz_.front()), at(-0.5)); }
  [[nodiscard]] double high() const { return at(static_cast<double>(hertz_.size()) - 0.5); }

  /// The position in bands above the lower edge.
  [[nodiscard]] double position(double hertz) const {
    if (hertz_.size() == 1) return 0.5;
    const auto above = std::upper_bound(hertz_.begin() + 1, hertz_.end() - 1, hertz);
    const auto index = static_cast<std::size_t>(above - hertz_.begin()) - 1;
    const double fraction = (hertz - hertz_[index]) / (hertz_[index + 1] - hertz_[index]);
    return static_cast<double>(index) + fraction + 0.5;
  }

 private:
  /// The frequency at band `index`, between bands and half a band beyond them.
  [[nodiscard]] double at(double index) const {
    if (hertz_.size() == 1) return hertz_.front();
    const double lower = std::clamp(std::floor(index), 0.0, static_cast<double>(hertz_.size()) - 2);
    const auto i = static_cast<std::size_t>(lower);
    return hertz_[i] + (hertz_[i + 1] - hertz_[i]) * (index - lower);
  }

  const std::vector<double>& hertz_;
};

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

void draw_values(canvas& picture, const rectangle& plot, std::span<const float> decibels,
                 const spectrogram_axes& axes, const decibel_range& range) {
  const auto frames = static_cast<std::size_t>(axes.frames);
  for (int row = 0; row < plot.height; ++row)
    for (int column = 0; column < plot.width; ++column) {
      const float value = largest(decibels, frames, first_value(row, plot.height, axes.bands),
                                  end_value(row, plot.height, axes.bands),
                                  first_value(column, plot.width, axes.frames),
                                  end_value(column, plot.width, axes.frames));
      // Row 0 of the matrix is at the bottom.
      picture.draw_pixel(plot.x + column, plot.bottom() - 1 - row,
                         std::isnan(value)
                             ? no_number
                             : magma((double{value} - range.low) / (range.high - range.low)));
    }
}

void draw_frame(canvas& picture, const rectangle& area) {
  picture.fill_rectangle(area.x - 1, area.y - 1, area.width + 2, 1, line_ink);
  picture.fill_rectangle(area.x - 1, area.bottom(), area.width + 2, 1, line_ink);
  picture.fill_rectangle(area.x - 1, area.y, 1, area.height, line_ink);
  picture.fill_rectangle(area.right(), area.y, 1, area.height, line_ink);
}

/// The baseline that centres digits vertically at `y`.
double centred_baseline(int y, const text_style& style) {
  return std::round(y + style.cap_height / 2) + 0.5;
}

void draw_frequency_axis(canvas& picture, const rectangle& plot, const spectrogram_axes& axes) {
  constexpr double label_distance = 26;
  const frequency_scale scale(axes.band_hertz);
  const double pixels_per_band = plot.height / static_cast<double>(axes.bands);
  const auto position = [&](double hertz) {
    return scale.position(hertz) * pixels_per_band;
  };
  for (const axis_tick& tick :
       frequency_ticks(scale.low(), scale.high(), position, label_distance)) {
    const int y = std::clamp(static_cast<int>(std::lround(plot.bottom() - position(tick.value))),
                             plot.y, plot.bottom() - 1);
    const int length = tick.label.empty() ? tick_length / 2 : tick_length;
    picture.fill_rectangle(plot.x - 1 - length, y, length, 1, line_ink);
    draw_text(picture, tick.label, plot.x - tick_length - 6.5, centred_baseline(y, label_style),
              label_style, text_anchor::end);
  }
  const int middle = plot.y + plot.height / 2;
  draw_text(picture, "Frequency (Hz)", 30.5, middle + 0.5, axis_style, text_anchor::middle,
            text_direction::upwards);
}

void draw_time_axis(canvas& picture, const rectangle& plot, const spectrogram_axes& axes) {
  constexpr int label_distance = 90;
  const double pixels_per_frame = plot.width / static_cast<double>(axes.frames);
  const double last = static_cast<double>(axes.frames - 1) * axes.seconds_per_frame;
  const int most = std::max(1, plot.width / label_distance);
  for (const axis_tick& tick : linear_ticks(0, last, most)) {
    const double frame = tick.value / axes.seconds_per_frame + 0.5;
    const int x = std::clamp(static_cast<int>(std::lround(plot.x + frame * pixels_per_frame - 0.5)),
                             plot.x, plot.right() - 1);
    picture.fill_rectangle(x, plot.bottom() + 1, 1, tick_length, line_ink);
    draw_text(picture, tick.label, x + 0.5,
              plot.bottom() + tick_length + 6 + label_style.cap_height + 0.5, label_style,
              text_anchor::middle);
  }
  const int middle = plot.x + plot.width / 2;
  draw_text(picture, "Time (s)", middle + 0.5, plot.bottom() + 50.5, axis_style,
            text_anchor::middle);
}

void draw_colour_bar(canvas& picture, const rectangle& bar, const decibel_range& range) {
  constexpr int label_distance = 40;
  for (int row = 0; row < bar.height; ++row)
    picture.fill_rectangle(bar.x, bar.bottom() - 1 - row, bar.width, 1,
                           magma((row + 0.5) / bar.height));
  draw_frame(picture, bar);
  const int most = std::max(1, bar.height / label_distance);
  for (const axis_tick& tick : linear_ticks(range.low, range.high, most)) {
    const double fraction = (tick.value - range.low) / (range.high - range.low);
    const int y = std::clamp(static_cast<int>(std::lround(bar.bottom() - fraction * bar.height)),
                             bar.y, bar.bottom() - 1);
    picture.fill_rectangle(bar.right() + 1, y, tick_length, 1, line_ink);
    draw_text(picture, tick.label, bar.right() + tick_length + 7.5,
              centred_baseline(y, label_style), label_style);
  }
  const int middle = bar.y + bar.height / 2;
  draw_text(picture, "Power (dB)", bar.right() + 64.5, middle + 0.5, axis_style,
            text_anchor::middle, text_direction::upwards);
}

std::vector<std::byte> encode(const canvas& picture) {
  png_image image{};
  image.version = PNG_IMAGE_VERSION;
  image.width = static_cast<png_uint_32>(picture.width());
  image.height = static_cast<png_uint_32>(picture.height());
  image.format = PNG_FORMAT_RGB;
  png_alloc_size_t size = PNG_IMAGE_PNG_SIZE_MAX(image);
  std::vector<std::byte> file(size);
  const int written =
      png_image_write_to_memory(&image, file.data(), &size, 0, picture.bytes().data(), 0, nullptr);
  const std::string message = image.message;
  png_image_free(&image);
  if (written == 0)
    throw error(errc::library_failure, "the spectrogram could not be encoded: " + message,
                library_status{"libpng", static_cast<long>(image.warning_or_error)});
  file.resize(size);
  return file;
}

}  // namespace

std::vector<std::byte> render_spectrogram_png(std::span<const float> decibels,
                                              const spectrogram_axes& axes) {
  check(decibels, axes);
  const rectangle plot{margin_left, margin_top, extent(axes.frames, 720, 960, 1440),
                       extent(axes.bands, 240, 520, 720)};
  const rectangle bar{plot.right() + colour_bar_gap, plot.y, colour_bar_width, plot.height};
  const decibel_range range = range_of(decibels);

  canvas picture(plot.right() + margin_right, plot.bottom() + margin_bottom, background);
  draw_values(picture, plot, decibels, axes, range);
  draw_frame(picture, plot);
  draw_frequency_axis(picture, plot, axes);
  draw_time_axis(picture, plot, axes);
  draw_colour_bar(picture, bar, range);
  const double length = bar.right() - plot.x;
  draw_text(picture, shortened(axes.title, title_style, length), plot.x + 0.5,
            plot.y - (axes.subtitle.empty() ? 18.5 : 36.5), title_style);
  draw_text(picture, shortened(axes.subtitle, subtitle_style, length), plot.x + 0.5, plot.y - 13.5,
            subtitle_style);
  return encode(picture);
}

void write_spectrogram_png(const std::filesystem::path& path, std::span<const float> decibels,
                           const spectrogram_axes& axes) {
  const std::vector<std::byte> file = render_spectrogram_png(decibels, axes);
  output_file target(path);
  target.write(file);
  target.commit();
}

}  // namespace sluice::io
