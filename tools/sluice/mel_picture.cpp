// SPDX-License-Identifier: Apache-2.0
#include "tools/sluice/mel_picture.hpp"

#include "tools/io/spectrogram_picture.hpp"

#include <sluice/operations/mel_filterbank.hpp>

#include <algorithm>
#include <cmath>
#include <string>

namespace sluice::cli {

std::vector<io::axis_tick> time_ticks(const mel_axes& axes) {
  const double seconds = static_cast<double>(axes.hop) / axes.sample_rate;  // of a column
  const auto columns = static_cast<double>(axes.frames);
  std::vector<io::axis_tick> ticks;
  for (const double time : io::round_numbers(0, (columns - 0.5) * seconds, 11))
    ticks.push_back({(time / seconds + 0.5) / columns, io::number_text(time)});
  return ticks;
}

std::vector<io::axis_tick> frequency_ticks(const mel_axes& axes) {
  constexpr double least_distance = 0.06;  // of two ticks
  const auto bands = static_cast<double>(axes.bands);
  const double first = hertz_to_mel(axes.fmin);
  const double last = hertz_to_mel(axes.fmax);
  std::vector<io::axis_tick> ticks;
  const auto add = [&](double hertz) {
    // Band i peaks at the (i + 1)-th of bands + 1 equal steps, and its row is centred at i + 0.5.
    const double step = (hertz_to_mel(hertz) - first) / (last - first) * (bands + 1);
    const double position = (step - 0.5) / bands;
    if (position < 0 || position > 1) return;
    if (std::any_of(ticks.begin(), ticks.end(), [&](const io::axis_tick& tick) {
          return std::abs(tick.position - position) < least_distance;
        }))
      return;
    ticks.push_back({position, io::number_text(hertz)});
  };
  // The roundest numbers first.
  for (const double digit : {1, 5, 2, 3})
    for (double power = 1e6; power >= 1; power /= 10) add(digit * power);
  // A narrow range has few of these numbers.
  if (ticks.size() < 3)
    for (const double hertz : io::round_numbers(axes.fmin, axes.fmax, 8)) add(hertz);
  return ticks;
}

void write_mel_picture(const std::filesystem::path& png, const std::filesystem::path& wav,
                       std::span<const float> decibels, const mel_axes& axes) {
  io::draw_spectrogram({.decibels = decibels,
                        .bands = axes.bands,
                        .frames = axes.frames,
                        .title = "Mel spectrogram of " + wav.filename().string(),
                        .times = time_ticks(axes),
                        .frequencies = frequency_ticks(axes)})
      .save(png);
}

}  // namespace sluice::cli
