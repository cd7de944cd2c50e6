// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstdint>

// Rows of resized images on the host, with the vectors of the processor.
namespace sluice::host {

/// The neighbours of some columns of the result in a row of the image; see `neighbours`.
struct resize_columns {
  static constexpr std::int64_t max_count = 256;
  std::int64_t count = 0;
  std::int64_t last = 0;  ///< the offset of the last column of the image, in elements
  std::array<std::int64_t, max_count> first{};
  std::array<std::int64_t, max_count> second{};
  std::array<float, max_count> weight{};
};

/// The two rows of an image between which a row of the result lies.
template <class T>
struct resize_source {
  const T* upper;
  const T* lower;
  float weight;                ///< of the lower one
  std::int64_t channels;       ///< elements side by side in each column
  std::int64_t column_stride;  ///< of the image, in elements
};

/// Computes the columns of one row of the result with the same bits as a bilinear
/// `resize_body`, in columns
/// that are `stride` elements apart. Instantiated for u8 and f32.
template <class T>
void resize_row(const resize_source<T>& source, const resize_columns& columns, T* y,
                std::int64_t stride);

}  // namespace sluice::host
