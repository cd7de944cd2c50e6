// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "operations/elementwise/host_loop.hpp"
#include "operations/elementwise/resize_call.hpp"
#include "operations/elementwise/resize_rows.hpp"

#include <algorithm>
#include <cstdint>

namespace sluice::host {

/// Resizes images of u8 or f32 row by row, where the channels of a column lie side by side or are
/// images of their own.
/// @return whether it did; other layouts are left alone
template <class T>
[[nodiscard]] bool resize_by_rows(const operations::resize_body<float>& body,
                                  const operations::map_layout<4>& layout) {
  const int last = layout.rank - 1;
  const auto is_index = [&](int operand, int dimension) {
    return dimension >= 0 && layout.strides[operand][dimension] != 0;
  };
  // The dimensions that are rows and columns: the last ones, but for the channels.
  const bool has_channels = !is_index(3, last);
  const int column_dimension = has_channels ? last - 1 : last;
  const int row_dimension = column_dimension - 1;
  if (!is_index(3, column_dimension) || !is_index(2, row_dimension)) return false;
  if (has_channels && (layout.strides[0][last] != 1 || layout.strides[1][last] != 1)) return false;

  const auto height = layout.shape[row_dimension];
  const auto width = layout.shape[column_dimension];
  const auto row_stride = layout.strides[0][row_dimension];
  const auto column_stride = layout.strides[0][column_dimension];
  resize_columns columns;
  columns.last = (body.columns.extent - 1) * body.columns.stride;
  const auto resize_block = [&](std::int64_t begin, const operations::map_position<4>& image) {
    const T* const x = static_cast<const T*>(body.addresses.inputs[0]) + image.offsets[1];
    T* const y = static_cast<T*>(body.addresses.y) + image.offsets[0] + begin * column_stride;
    for (std::int64_t row = 0; row < height; ++row) {
      const auto beside = operations::neighbours_of<float>(body.rows, row);
      resize_row<T>({.upper = x + beside.first,
                     .lower = x + beside.second,
                     .weight = beside.weight,
                     .channels = has_channels ? layout.shape[last] : 1,
                     .column_stride = body.columns.stride},
                    columns, y + row * row_stride, column_stride);
    }
  };
  for (std::int64_t begin = 0; begin < width; begin += resize_columns::max_count) {
    columns.count = std::min(resize_columns::max_count, width - begin);
    for (std::int64_t i = 0; i < columns.count; ++i) {
      const auto beside = operations::neighbours_of<float>(body.columns, begin + i);
      const auto column = static_cast<std::size_t>(i);
      columns.first[column] = beside.first;
      columns.second[column] = beside.second;
      columns.weight[column] = beside.weight;
    }
    auto images = layout;
    images.rank = row_dimension;
    if (images.rank == 0) {
      resize_block(begin, {});
    } else {
      for_each_position(
          images, [&](const operations::map_position<4>& image) { resize_block(begin, image); });
    }
  }
  return true;
}

}  // namespace sluice::host
