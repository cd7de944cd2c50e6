// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <vector>

namespace sluice::io {

/// The axes of a spectrogram and the text above it.
struct spectrogram_axes {
  std::int64_t bands = 0;   ///< rows, at least 1
  std::int64_t frames = 0;  ///< columns, at least 1
  /// The frequency of each row in Hz, strictly ascending. Has `bands` elements.
  std::vector<double> band_hertz;
  double seconds_per_frame = 0;  ///< the time from one column to the next; column 0 is at 0 s
  std::string title;             ///< UTF-8; shortened if too long
  std::string subtitle;          ///< smaller, below the title; may be empty
};

/// The bytes of a PNG file that shows `decibels` (row-major, `bands` x `frames`, the lowest band
/// first) with axes in Hz and seconds and a colour bar in dB. The colours span the 80 dB below the
/// largest finite value. NaN is grey. The picture is about 1000 pixels wide and 700 high for any
/// size of the matrix: a small matrix has large rectangles, and a pixel of a large one shows the
/// largest of its values. Needs no font on the machine.
/// @throws error `invalid_argument` (the sizes do not match), `library_failure` (libpng failed)
[[nodiscard]] std::vector<std::byte> render_spectrogram_png(std::span<const float> decibels,
                                                            const spectrogram_axes& axes);

/// Renders the picture and writes it as an `output_file`. @throws error as both
void write_spectrogram_png(const std::filesystem::path& path, std::span<const float> decibels,
                           const spectrogram_axes& axes);

}  // namespace sluice::io
