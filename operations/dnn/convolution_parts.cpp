// SPDX-License-Identifier: Apache-2.0
#include "operations/dnn/convolution_parts.hpp"

#include <algorithm>
#include <optional>

namespace sluice::host {
namespace {

using operations::convolution_shape;

/// The part of `images` images and `rows` rows of the output, from these numbers on; nothing if the
/// windows of the part lie in the padding alone.
std::optional<convolution_part> part_of(const convolution_shape& key, std::int64_t image,
                                        std::int64_t images, std::int64_t row, std::int64_t rows) {
  const auto axis = row_axis(key);
  const auto stride = key.stride[axis];
  const auto first = row * stride - key.before[axis];
  const auto last =
      (row + rows - 1) * stride - key.before[axis] + (key.taps[axis] - 1) * key.dilation[axis];
  const auto begin = std::max<std::int64_t>(first, 0);
  const auto end = std::min(last + 1, key.input[axis]);
  if (begin >= end) return std::nullopt;
  return convolution_part{{images, end - begin, begin - first, last + 1 - end, rows},
                          image,
                          image * key.x_distance + begin * key.x_strides().axes[axis],
                          image * key.y_distance + row * key.y_strides().axes[axis]};
}

}  // namespace

convolution_part whole_of(const convolution_shape& key) noexcept {
  const auto axis = row_axis(key);
  return {{key.n, key.input[axis], key.before[axis], key.after[axis], key.output[axis]}, 0, 0, 0};
}

std::vector<convolution_part> parts_of(const convolution_shape& key) {
  constexpr double products_of_part = 1 << 24;  // about 0.5 ms
  constexpr std::int64_t most = 64;
  constexpr std::int64_t enough = 32;         // parts, with which images are not divided
  constexpr std::int64_t least_pixels = 256;  // in a band, below which oneDNN is slower
  const double wanted = std::min(key.products() / products_of_part, static_cast<double>(most));
  if (wanted < 2) return {};
  const auto count = static_cast<std::int64_t>(wanted);
  const auto images = (key.n + count - 1) / count;
  const auto axis = row_axis(key);
  const auto output_rows = key.output[axis];
  std::int64_t rows = output_rows;
  if (key.n < enough && !key.is_transposed()) {
    const auto bands = std::max<std::int64_t>(std::min(count, enough) / key.n, 1);
    const auto pixels = operations::product_of(key.output) / output_rows;  // of a row
    // A band reads rows of its neighbours, too.
    const auto least_rows = std::max(
        {(least_pixels + pixels - 1) / pixels,
         ((key.taps[axis] - 1) * key.dilation[axis] + key.stride[axis]) * 2 / key.stride[axis],
         (output_rows + bands - 1) / bands});
    rows = std::min(least_rows, output_rows);
  }
  std::vector<convolution_part> parts;
  for (std::int64_t image = 0; image < key.n; image += images) {
    const auto count_of_part = std::min(images, key.n - image);
    if (key.is_transposed()) {
      auto part = whole_of(key);
      part.shape.images = count_of_part;
      part.image = image;
      part.x_offset = image * key.x_distance;
      part.y_offset = image * key.y_distance;
      parts.push_back(part);
      continue;
    }
    for (std::int64_t row = 0; row < output_rows; row += rows) {
      const auto part = part_of(key, image, count_of_part, row, std::min(rows, output_rows - row));
      if (!part) return {};
      parts.push_back(*part);
    }
  }
  return parts.size() > 1 ? parts : std::vector<convolution_part>();
}

}  // namespace sluice::host
