// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "operations/elementwise/host_loop.hpp"
#include "operations/elementwise/resize_pass.hpp"
#include "operations/elementwise/resize_rows.hpp"

#include <algorithm>
#include <cstdint>

namespace sluice::host {

/// The two neighbours of an index of the result and the weight of the second one.
struct neighbours {
  std::int64_t first;   ///< offset in elements
  std::int64_t second;  ///< offset in elements
  float weight;
};
[[nodiscard]] inline neighbours neighbours_of(const operations::resize_axis& axis,
                                              std::int64_t index) noexcept {
  const auto taps = operations::taps_of<float>(axis, {.mode = resize_mode::linear}, index);
  return {taps.first * axis.stride, axis.inside(taps.first + taps.count - 1) * axis.stride,
          taps.distance};
}

/// The dimensions of a resized image that are rows and columns: the last ones, but for the
/// channels.
struct image_dimensions {
  bool have_channels;
  int row;
  int column;
};

/// Resizes a part of images row by row.
template <class T>
void resize_part(const operations::resize_body<float, 2>& body, const image_dimensions& dimensions,
                 const operations::map_layout<4>& layout,
                 const operations::map_position<4>& origin) {
  const auto height = layout.shape[dimensions.row];
  const auto width = layout.shape[dimensions.column];
  const auto row_stride = layout.strides[0][dimensions.row];
  const auto column_stride = layout.strides[0][dimensions.column];
  const auto channels = dimensions.have_channels ? layout.shape[layout.rank - 1] : 1;
  resize_columns columns;
  columns.last = (body.axes[1].extent - 1) * body.axes[1].stride;
  const auto resize_block = [&](std::int64_t begin, const operations::map_position<4>& image) {
    const T* const x = static_cast<const T*>(body.addresses.inputs[0]) + image.offsets[1];
    T* const y = static_cast<T*>(body.addresses.y) + image.offsets[0] + begin * column_stride;
    for (std::int64_t row = 0; row < height; ++row) {
      const auto beside = neighbours_of(body.axes[0], image.offsets[2] + row);
      resize_row<T>({.upper = x + beside.first,
                     .lower = x + beside.second,
                     .weight = beside.weight,
                     .channels = channels,
                     .column_stride = body.axes[1].stride},
                    columns, y + row * row_stride, column_stride);
    }
  };
  for (std::int64_t begin = 0; begin < width; begin += resize_columns::max_count) {
    columns.count = std::min(resize_columns::max_count, width - begin);
    for (std::int64_t i = 0; i < columns.count; ++i) {
      const auto beside = neighbours_of(body.axes[1], origin.offsets[3] + begin + i);
      const auto column = static_cast<std::size_t>(i);
      columns.first[column] = beside.first;
      columns.second[column] = beside.second;
      columns.weight[column] = beside.weight;
    }
    auto images = layout;
    images.rank = dimensions.row;
    if (images.rank == 0) {
      resize_block(begin, origin);
    } else {
      for_each_position(images, origin, [&](const operations::map_position<4>& image) {
        resize_block(begin, image);
      });
    }
  }
}

/// Resizes images of u8 or f32 bilinearly row by row, where the channels of a column lie side by
/// side or are images of their own.
/// @return whether it did; other layouts are left alone
template <class T>
[[nodiscard]] bool resize_by_rows(const operations::resize_body<float, 2>& body,
                                  const operations::map_layout<4>& layout) {
  if (body.filter.mode != resize_mode::linear || body.filter.crops ||
      body.axes[0].filter_scale != 1 || body.axes[1].filter_scale != 1) {
    return false;
  }
  const int last = layout.rank - 1;
  const auto is_index = [&](int operand, int dimension) {
    return dimension >= 0 && layout.strides[operand][dimension] != 0;
  };
  const bool has_channels = !is_index(3, last);
  const int column_dimension = has_channels ? last - 1 : last;
  const int row_dimension = column_dimension - 1;
  if (!is_index(3, column_dimension) || !is_index(2, row_dimension)) return false;
  if (has_channels && (layout.strides[0][last] != 1 || layout.strides[1][last] != 1)) return false;

  // A part computes the neighbours of its columns first, which many rows must make up for.
  constexpr std::int64_t least_rows = 64;
  std::int64_t row_elements = 1;
  for (int d = column_dimension; d <= last; ++d) row_elements *= layout.shape[d];
  const image_dimensions dimensions{has_channels, row_dimension, column_dimension};
  for_each_part(
      layout, {.nanoseconds = 1.5, .least = least_rows * row_elements},
      [&](const operations::map_layout<4>& part, const operations::map_position<4>& origin) {
        resize_part<T>(body, dimensions, part, origin);
      });
  return true;
}

}  // namespace sluice::host
