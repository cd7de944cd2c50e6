// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "operations/elementwise/resize_pass.hpp"

#include <cuda_runtime.h>

#include <cstdint>

// Bilinear interpolation of images whose columns have few channels: a thread computes all channels
// of a pixel, and the threads of a block share the neighbours of its rows and columns.
namespace sluice::operations {
namespace {

/// Images, rows, columns and channels of y and x. Strides are counted in elements; those of x along
/// rows and columns are in the axes.
struct pixel_call {
  resize_axis rows;
  resize_axis columns;
  resize_filter filter;
  const void* x;
  void* y;
  std::int64_t images;
  std::int64_t x_image;
  std::int64_t x_channel;
  std::int64_t y_image;
  std::int64_t y_row;
  std::int64_t y_column;
  std::int64_t y_channel;
};

constexpr int tile_columns = 32;
constexpr int tile_rows = 32;
constexpr int rows_at_once = 8;

/// The two neighbours of a result along an axis and the weight of the second one.
struct pixel_neighbours {
  std::int64_t first;   ///< offset in elements
  std::int64_t second;  ///< offset in elements
  float weight;
};

/// The weighted sum of neighbours. A neighbour without weight does not count, even if it is NaN.
[[nodiscard]] __device__ inline float between(float first, float second, float weight) {
  const float other = 1.0F - weight;
  const float sum = other * first + weight * second;
  return weight == 0 ? first : other == 0 ? second : sum;
}

template <storage Type, int Channels>
__global__ void __launch_bounds__(tile_columns* rows_at_once)
    pixels_kernel(const __grid_constant__ pixel_call call) {
  using body = resize_body<float, 2>;
  __shared__ pixel_neighbours columns[tile_columns];
  __shared__ pixel_neighbours rows[tile_rows];
  const int thread = static_cast<int>(threadIdx.x);
  const int tiles_across =
      static_cast<int>((call.columns.result + tile_columns - 1) / tile_columns);
  const int tiles_down = static_cast<int>((call.rows.result + tile_rows - 1) / tile_rows);
  const std::int64_t tiles = call.images * tiles_down * tiles_across;
  for (std::int64_t tile = blockIdx.x; tile < tiles; tile += gridDim.x) {
    const auto line = divide(tile, tiles_across);
    const auto image = divide(line.value, tiles_down);
    const std::int64_t first_column = line.remainder * tile_columns;
    const std::int64_t first_row = image.remainder * tile_rows;
    __syncthreads();  // the neighbours of the previous tile have been read
    if (thread < tile_columns + tile_rows) {
      const bool is_column = thread < tile_columns;
      const resize_axis& axis = is_column ? call.columns : call.rows;
      const std::int64_t index =
          is_column ? first_column + thread : first_row + thread - tile_columns;
      const auto taps = taps_of<float>(axis, call.filter, index);
      const std::int64_t last = axis.inside(taps.first + taps.count - 1);
      (is_column ? columns[thread] : rows[thread - tile_columns]) = {
          taps.first * axis.stride, last * axis.stride, taps.distance};
    }
    __syncthreads();
    const std::int64_t column = first_column + thread % tile_columns;
    if (column >= call.columns.result) continue;
    const auto across = columns[thread % tile_columns];
    const std::int64_t source = image.value * call.x_image;
    const std::int64_t target = image.value * call.y_image + column * call.y_column;
#pragma unroll 2
    for (int r = thread / tile_columns; r < tile_rows; r += rows_at_once) {
      const std::int64_t row = first_row + r;
      if (row >= call.rows.result) break;
      const auto down = rows[r];
      float values[Channels][4];
#pragma unroll
      for (int c = 0; c < Channels; ++c) {
        const std::int64_t channel = source + c * call.x_channel;
        values[c][0] = load<float>(Type, call.x, channel + down.first + across.first);
        values[c][1] = load<float>(Type, call.x, channel + down.first + across.second);
        values[c][2] = load<float>(Type, call.x, channel + down.second + across.first);
        values[c][3] = load<float>(Type, call.x, channel + down.second + across.second);
      }
#pragma unroll
      for (int c = 0; c < Channels; ++c) {
        const float upper = between(values[c][0], values[c][1], across.weight);
        const float lower = between(values[c][2], values[c][3], across.weight);
        float value = between(upper, lower, down.weight);
        if constexpr (Type == storage::u8) value = body::rounded(value);
        store<overflow::saturates>(Type, call.y, target + row * call.y_row + c * call.y_channel,
                                   value);
      }
    }
  }
}

/// Calls `run` with a kernel of a type, of images with a number of channels.
/// @return whether there is one
template <class Run>
[[nodiscard]] bool with_pixels_kernel(storage type, std::int64_t channels, const Run& run) {
  const auto with_type = [&](auto constant) {
    constexpr storage type_v = decltype(constant)::value;
    switch (channels) {
      case 1:
        return run(pixels_kernel<type_v, 1>), true;
      case 3:
        return run(pixels_kernel<type_v, 3>), true;
      case 4:
        return run(pixels_kernel<type_v, 4>), true;
      default:
        return false;
    }
  };
  switch (type) {
    case storage::u8:
      return with_type(std::integral_constant<storage, storage::u8>());
    case storage::f16:
      return with_type(std::integral_constant<storage, storage::f16>());
    case storage::bf16:
      return with_type(std::integral_constant<storage, storage::bf16>());
    case storage::f32:
      return with_type(std::integral_constant<storage, storage::f32>());
    default:
      return false;
  }
}

/// Describes a pass over images whose last dimensions are rows and columns, but for channels.
/// @return whether it is one
[[nodiscard]] inline bool describe_pixels(const resize_pass& pass, const map_addresses& addresses,
                                          pixel_call& call, std::int64_t& channels) {
  const auto& layout = pass.layout;
  if (pass.axis_count != 2 || pass.filter.mode != resize_mode::linear || pass.filter.crops ||
      pass.axes[0].filter_scale != 1 || pass.axes[1].filter_scale != 1) {
    return false;
  }
  constexpr int row_index = 2;
  constexpr int column_index = 3;
  const int last = layout.rank - 1;
  const bool has_channels = layout.strides[column_index][last] == 0;
  const int column = has_channels ? last - 1 : last;
  const int row = column - 1;
  if (row < 0 || row > 1 || layout.strides[column_index][column] != 1 ||
      layout.strides[row_index][row] != 1 || layout.shape[column] != pass.axes[1].result ||
      layout.shape[row] != pass.axes[0].result) {
    return false;
  }
  const bool has_images = row == 1;
  channels = has_channels ? layout.shape[last] : 1;
  call = {pass.axes[0],
          pass.axes[1],
          pass.filter,
          addresses.inputs[0],
          addresses.y,
          has_images ? layout.shape[0] : 1,
          has_images ? layout.strides[1][0] : 0,
          has_channels ? layout.strides[1][last] : 0,
          has_images ? layout.strides[0][0] : 0,
          layout.strides[0][row],
          layout.strides[0][column],
          has_channels ? layout.strides[0][last] : 0};
  return true;
}

/// @return whether a kernel has been launched
[[nodiscard]] inline bool launch_pixels(const resize_pass& pass, const map_addresses& addresses,
                                        cudaStream_t stream) {
  pixel_call call;
  std::int64_t channels = 0;
  if (!describe_pixels(pass, addresses, call, channels)) return false;
  constexpr std::int64_t most_tiles = 1 << 20;  // along an axis; they are numbered in 32 bits
  const std::int64_t across = (call.columns.result + tile_columns - 1) / tile_columns;
  const std::int64_t down = (call.rows.result + tile_rows - 1) / tile_rows;
  if (across > most_tiles || down > most_tiles) return false;
  return with_pixels_kernel(pass.layout.types[0], channels, [&](auto* kernel) {
    const std::int64_t tiles = call.images * across * down;
    constexpr std::int64_t most_blocks = 16384;
    const auto blocks = static_cast<unsigned>(tiles < most_blocks ? tiles : most_blocks);
    kernel<<<blocks, tile_columns * rows_at_once, 0, stream>>>(call);
  });
}

}  // namespace
}  // namespace sluice::operations
