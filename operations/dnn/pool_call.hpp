// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "operations/elementwise/strided_map.hpp"

#include <sluice/operations/pooling.hpp>

#include <cstdint>

// Windows that move over tensors. Kernels include this header, so it compiles as C++17.
namespace sluice {
struct native_stream;
}

namespace sluice::operations {

/// What is computed of a window.
enum class window_kind : std::uint8_t {
  maximum,  ///< those of `pooling`
  average,
  lp,
  response,  ///< the element at its position, divided by a power of the sum of squares
};
static_assert(static_cast<window_kind>(pooling::lp) == window_kind::lp, "enumerators are equal");

/// A dimension along which windows move. Distances and positions are in elements along the
/// dimension.
struct pool_axis {
  /// The step of windows of equal shares of x, which may overlap.
  static constexpr std::int64_t adaptive = 0;

  std::int64_t extent = 1;    ///< of x
  std::int64_t outputs = 1;   ///< extent of y
  std::int64_t window = 1;    ///< taps: elements of a window
  std::int64_t step = 1;      ///< between windows
  std::int64_t dilation = 1;  ///< between taps
  std::int64_t before = 0;    ///< padding, less than a window
  std::int64_t after = 0;
  std::int64_t x_stride = 0;
  std::int64_t y_stride = 0;

  /// The distance from the first tap to the last one.
  [[nodiscard]] SLUICE_HOST_DEVICE std::int64_t reach() const noexcept {
    return (window - 1) * dilation;
  }
};

/// The dimensions that no window moves over: images and channels.
struct pool_planes {
  std::int64_t count = 1;
  std::int64_t x_stride = 0;
  std::int64_t y_stride = 0;
};

/// A pool, or a normalization by windows. Axes and planes have the order of falling strides of x.
/// The last planes are merged with the first ones if one stride leads through all of them.
struct pool_call {
  static constexpr int max_axes = 3;

  pool_axis axes[max_axes]{};
  pool_planes planes[2]{};
  std::int64_t p = 2;
  /// x / (bias + alpha · sum)^beta is the response.
  ///@{
  double alpha = 0;
  double beta = 0;
  double bias = 1;
  ///@}
  storage type = storage::f32;
  window_kind kind = window_kind::maximum;
  bool counts_padding = false;

  /// Whether neighbouring windows share the sums or extrema of columns on the host. They are
  /// computed one by one if they are long, or lie in the padding for the most part.
  [[nodiscard]] bool shares_columns() const noexcept {
    constexpr std::int64_t most_elements = 1 << 17;
    const auto& axis = axes[max_axes - 1];
    return axis.step != pool_axis::adaptive && axis.window / 2 <= axis.extent &&
           axis.reach() < most_elements / pixel();
  }
  /// The elements at one position along the last axis: those of all inner planes if these lie side
  /// by side.
  [[nodiscard]] std::int64_t pixel() const noexcept {
    return has_inner_planes() ? planes[1].count : 1;
  }
  /// Whether the last planes are nearer to each other than the elements of any axis: channels-last.
  [[nodiscard]] bool has_inner_planes() const noexcept {
    return planes[1].count > 1 && planes[1].x_stride < axes[max_axes - 1].x_stride;
  }
};

/// The taps of a window that are elements of x: from `first` to before `last`.
struct pool_taps {
  std::int64_t start;  ///< position of tap 0, which may be in the padding
  std::int64_t first;
  std::int64_t last;
};
/// The taps within a distance of at least 1: `distance` / `dilation`, rounded up.
[[nodiscard]] SLUICE_HOST_DEVICE inline std::int64_t taps_within(std::int64_t distance,
                                                                 std::int64_t dilation) noexcept {
  return dilation == 1 ? distance : divide(distance - 1, dilation).value + 1;
}
[[nodiscard]] SLUICE_HOST_DEVICE inline pool_taps taps_of(const pool_axis& axis,
                                                          std::int64_t output) noexcept {
  if (axis.step == pool_axis::adaptive) {
    const std::int64_t begin = divide(output * axis.extent, axis.outputs).value;
    const std::int64_t last = divide((output + 1) * axis.extent - 1, axis.outputs).value;
    return {begin, 0, last + 1 - begin};
  }
  const std::int64_t start = output * axis.step - axis.before;
  const std::int64_t first = start < 0 ? taps_within(-start, axis.dilation) : 0;
  const std::int64_t end = taps_within(axis.extent - start, axis.dilation);
  return {start, first, end < axis.window ? end : axis.window};
}
/// The taps of a window that an average counts.
[[nodiscard]] SLUICE_HOST_DEVICE inline std::int64_t counted_taps(const pool_axis& axis,
                                                                  const pool_taps& taps,
                                                                  bool counts_padding) noexcept {
  if (!counts_padding) return taps.last > taps.first ? taps.last - taps.first : 0;
  const std::int64_t end = taps_within(axis.extent + axis.after - taps.start, axis.dilation);
  return end < axis.window ? end : axis.window;
}

/// Loads the kernels. Returns a `cudaError_t`.
[[nodiscard]] int load_pool();

/// Queues a pool with at least one result on a stream of the current device. Returns a
/// `cudaError_t`.
[[nodiscard]] int launch_pool(const pool_call& call, const void* x, void* y, native_stream* stream);

}  // namespace sluice::operations
