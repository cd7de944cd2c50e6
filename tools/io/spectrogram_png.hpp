#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <vector>

namespace sluice::io {

/// What the axes of a spectrogram mean and what is written above it.
struct spectrogram_axes {
  std::int64_t bands = 0;   ///< rows, at least 1
  std::int64_t frames = 0;  ///< columns, at least 1
  /// The frequency in Hz that each row stands for, lowest first, strictly ascending; `bands` long.
  std::vector<double> band_hertz;
  double seconds_per_frame = 0;  ///< the time from one column to the next; column 0 is at 0 s
  std::string title;             ///< UTF-8; shortened where it is too long
  std::string subtitle;          ///< smaller, below the title; may be empty
};

/// The bytes of a PNG file that shows `decibels` (row-major, `bands` x `frames`, the lowest band
/// first) with axes in Hz and seconds and a colour bar in dB. Colours span the 80 dB below the
/// largest finite value; values that are not a number are grey. The picture is about 1000 pixels
/// wide and 700 high for any size of the matrix: few values are drawn as large rectangles, of many
/// that fall into one pixel the largest is shown. Needs no font on the machine. Throws
/// `invalid_argument` when the sizes do not fit each other and `library_failure` when libpng fails.
[[nodiscard]] std::vector<std::byte> render_spectrogram_png(std::span<const float> decibels,
                                                            const spectrogram_axes& axes);

/// Renders and writes the file, which appears under `path` only when it is complete (see
/// `output_file`).
void write_spectrogram_png(const std::filesystem::path& path, std::span<const float> decibels,
                           const spectrogram_axes& axes);

}  // namespace sluice::io
