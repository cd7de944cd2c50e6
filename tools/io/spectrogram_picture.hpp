// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "tools/io/axis.hpp"
#include "tools/io/picture.hpp"

#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace sluice::io {

/// A spectrogram to be shown as a picture.
struct spectrogram_view {
  std::span<const float> decibels;  ///< row-major, `bands` x `frames`, the lowest band first
  std::int64_t bands = 0;           ///< rows, at least 1
  std::int64_t frames = 0;          ///< columns, at least 1
  std::string title{};
  std::vector<axis_tick> times{};        ///< in seconds
  std::vector<axis_tick> frequencies{};  ///< in hertz
};

/// Where the parts of the picture of a spectrogram are.
struct spectrogram_layout {
  int width = 0;   ///< of the picture
  int height = 0;  ///< of the picture
  area values{};   ///< the spectrogram
  area scale{};    ///< the colours of the decibels, the largest at the top
};

/// The layout for a matrix of this size. The spectrogram is 720 to 1440 pixels wide and 240 to 720
/// high for any size of the matrix.
[[nodiscard]] spectrogram_layout layout_of(std::int64_t bands, std::int64_t frames);

/// Draws a spectrogram: time to the right, frequency upwards, with a scale of the colours.
///
/// The colours span the 80 dB below the largest finite value; smaller values have the colour of the
/// smallest of these, and NaN is grey. A matrix of equal values has the colour of the largest. A
/// small matrix has large rectangles, and a pixel of a large one shows the largest of its values.
/// @throws error `invalid_argument` (the sizes do not match), `library_failure` (Cairo)
[[nodiscard]] picture draw_spectrogram(const spectrogram_view& view);

}  // namespace sluice::io
