// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <vector>

namespace sluice::io {

/// A spectrogram to be shown as a picture.
struct spectrogram_view {
  std::span<const float> decibels;  ///< row-major, `bands` x `frames`, the lowest band first
  std::int64_t bands = 0;           ///< rows, at least 1
  std::int64_t frames = 0;          ///< columns, at least 1
};

/// The bytes of a PNG file that shows `shown`: time to the right, frequency upwards, without axes.
/// The colours span the 80 dB below the largest finite value. NaN is grey. The picture is about
/// 1000 pixels wide and 500 high for any size of the matrix: a small matrix has large rectangles,
/// and a pixel of a large one shows the largest of its values.
/// @throws error `invalid_argument` (the sizes do not match), `library_failure` (libpng failed)
[[nodiscard]] std::vector<std::byte> render_spectrogram_png(const spectrogram_view& shown);

/// Renders the picture and writes it as an `output_file`. @throws error as both
void write_spectrogram_png(const std::filesystem::path& path, const spectrogram_view& shown);

}  // namespace sluice::io
