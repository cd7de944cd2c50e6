// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "operations/dnn/convolution_call.hpp"

#include <cstddef>
#include <cstdint>
#include <vector>

namespace sluice::host {

/// The extents of a part of a convolution: some images, and a band of their rows. In three
/// dimensions, a row is all that lies at one depth.
struct part_shape {
  std::int64_t images;
  std::int64_t input;   ///< rows of the input
  std::int64_t before;  ///< rows of padding before them
  std::int64_t after;   ///< rows of padding after them
  std::int64_t output;  ///< rows of the output
  [[nodiscard]] bool operator==(const part_shape&) const noexcept = default;
};
/// A part of a convolution.
struct convolution_part {
  part_shape shape;
  std::int64_t image;     ///< the first one
  std::int64_t x_offset;  ///< in elements
  std::int64_t y_offset;
};

/// The dimension of `operations::spatial` that counts rows.
[[nodiscard]] inline std::size_t row_axis(const operations::convolution_shape& key) noexcept {
  return key.rank() == 2 ? 1 : 0;
}
/// All of a convolution.
[[nodiscard]] convolution_part whole_of(const operations::convolution_shape& key) noexcept;
/// The parts that threads compute: images of the batch, and bands of their rows if the images are
/// few. A transposed convolution is divided into images only, because bands of its result overlap.
/// They depend on the key alone. Without any, the convolution is not divided.
[[nodiscard]] std::vector<convolution_part> parts_of(const operations::convolution_shape& key);

}  // namespace sluice::host
