// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "tools/io/axis.hpp"

#include <cstdint>
#include <filesystem>
#include <span>
#include <vector>

namespace sluice::cli {

/// The axes of a mel spectrogram.
struct mel_axes {
  double sample_rate = 0;  ///< samples per second
  std::int64_t hop = 0;    ///< samples from one frame to the next
  std::int64_t frames = 0;
  std::int64_t bands = 0;
  double fmin = 0;  ///< lower edge of the lowest band, in Hz
  double fmax = 0;  ///< upper edge of the highest band, in Hz
};

/// Ticks at round numbers of seconds. The centre of column i is at i * hop / sample_rate.
[[nodiscard]] std::vector<io::axis_tick> time_ticks(const mel_axes& axes);

/// Ticks at round numbers of hertz, far enough apart for their labels. A frequency at which the
/// filter of a band peaks is at the centre of the row of this band.
[[nodiscard]] std::vector<io::axis_tick> frequency_ticks(const mel_axes& axes);

/// Draws the decibels, `bands` x `frames`, of the recording in the file `wav`, and writes the
/// picture as PNG. @throws error as `draw_spectrogram` and `picture::save`
void write_mel_picture(const std::filesystem::path& png, const std::filesystem::path& wav,
                       std::span<const float> decibels, const mel_axes& axes);

}  // namespace sluice::cli
