// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "operations/elementwise/storage.hpp"
#include "operations/elementwise/strided_map.hpp"

#include <sluice/host_device_code.hpp>

#include <cstdint>

// One element of a convolution, by its definition. Kernels include this header, so it compiles as
// C++17.
namespace sluice {
struct native_stream;
}

namespace sluice::operations {

/// One dimension over which filters move; see `convolution_shape`.
struct element_axis {
  std::int64_t x = 1;     ///< extent of X
  std::int64_t y = 1;     ///< extent of Y
  std::int64_t taps = 1;  ///< extent of a filter
  std::int64_t before = 0;
  std::int64_t stride = 1;
  std::int64_t dilation = 1;
  std::int64_t x_stride = 0;
  std::int64_t w_stride = 0;
  std::int64_t y_stride = 0;

  /// The position in X that a tap joins with a position in Y; -1 if there is none.
  [[nodiscard]] SLUICE_HOST_DEVICE std::int64_t position(std::int64_t output, std::int64_t tap,
                                                         bool is_transposed) const noexcept {
    auto input = output * stride - before + tap * dilation;
    if (is_transposed) {
      input = output + before - tap * dilation;
      if (input < 0 || input % stride != 0) return -1;
      input /= stride;
    }
    return input >= 0 && input < x ? input : -1;
  }
};

/// The distances of images and channels, in elements.
struct element_strides {
  std::int64_t image = 0;
  std::int64_t channel = 0;
};

/// A convolution, or a transposed one, as sums for each element of Y.
struct element_call {
  element_axis axes[3]{};
  element_strides x{};
  element_strides y{};
  std::int64_t y_filter = 0;  ///< the distance in W between neighbouring channels of Y
  std::int64_t x_filter = 0;  ///< the distance in W between neighbouring channels of X
  std::int64_t w_group = 0;   ///< the distance in W between groups
  std::int64_t images = 0;
  std::int64_t y_channels = 0;
  std::int64_t group_inputs = 1;   ///< channels of X in a group
  std::int64_t group_outputs = 1;  ///< channels of Y in a group
  bool is_transposed = false;
  bool is_channels_last = false;
  storage type = storage::f32;

  /// The elements of Y.
  [[nodiscard]] SLUICE_HOST_DEVICE std::int64_t count() const noexcept {
    return images * y_channels * axes[0].y * axes[1].y * axes[2].y;
  }
};

/// An element of Y.
struct element_index {
  std::int64_t image;
  std::int64_t channel;
  std::int64_t axes[3];
};

/// Element `i` of Y in the order of memory.
[[nodiscard]] SLUICE_HOST_DEVICE inline element_index index_of(const element_call& call,
                                                               std::int64_t i) noexcept {
  element_index index{};
  const auto take = [&](std::int64_t extent) {
    const auto q = divide(i, extent);
    i = q.value;
    return q.remainder;
  };
  if (call.is_channels_last) index.channel = take(call.y_channels);
  for (int axis = 2; axis >= 0; --axis) index.axes[axis] = take(call.axes[axis].y);
  if (!call.is_channels_last) index.channel = take(call.y_channels);
  index.image = i;
  return index;
}

/// The position of an element of Y in its memory.
[[nodiscard]] SLUICE_HOST_DEVICE inline std::int64_t position_of(
    const element_call& call, const element_index& index) noexcept {
  auto position = index.image * call.y.image + index.channel * call.y.channel;
  for (int axis = 0; axis < 3; ++axis) position += index.axes[axis] * call.axes[axis].y_stride;
  return position;
}

/// Calls `visit` with the positions in X and W of the factors of each product of an element of Y.
template <class Visit>
SLUICE_HOST_DEVICE inline void for_each_product(const element_call& call,
                                                const element_index& index, Visit&& visit) {
  const auto& a = call.axes;
  const auto group = index.channel / call.group_outputs;
  const auto channel = index.channel - group * call.group_outputs;
  const auto first_x = index.image * call.x.image + group * call.group_inputs * call.x.channel;
  const auto first_w = group * call.w_group + channel * call.y_filter;
  for (std::int64_t q = 0; q < a[0].taps; ++q) {
    const auto depth = a[0].position(index.axes[0], q, call.is_transposed);
    if (depth < 0) continue;
    for (std::int64_t r = 0; r < a[1].taps; ++r) {
      const auto row = a[1].position(index.axes[1], r, call.is_transposed);
      if (row < 0) continue;
      for (std::int64_t s = 0; s < a[2].taps; ++s) {
        const auto column = a[2].position(index.axes[2], s, call.is_transposed);
        if (column < 0) continue;
        const auto from_x =
            first_x + depth * a[0].x_stride + row * a[1].x_stride + column * a[2].x_stride;
        const auto from_w = first_w + q * a[0].w_stride + r * a[1].w_stride + s * a[2].w_stride;
        for (std::int64_t c = 0; c < call.group_inputs; ++c) {
          visit(from_x + c * call.x.channel, from_w + c * call.x_filter);
        }
      }
    }
  }
}

/// The sum of the products of an element of Y, in f32.
[[nodiscard]] SLUICE_HOST_DEVICE inline float sum_of_products(const element_call& call,
                                                              const element_index& index,
                                                              const void* x, const void* w) {
  float sum = 0;
  for_each_product(call, index, [&](std::int64_t from_x, std::int64_t from_w) {
    sum += load<float>(call.type, x, from_x) * load<float>(call.type, w, from_w);
  });
  return sum;
}

/// Loads the kernel of `launch_elements`. Returns a `cudaError_t`.
[[nodiscard]] int load_elements() noexcept;
/// Enqueues the sum of the products of each element of Y on a stream of the current device. Returns
/// a `cudaError_t`.
[[nodiscard]] int launch_elements(const element_call& call, const void* x, const void* w, void* y,
                                  native_stream* stream) noexcept;

}  // namespace sluice::operations
