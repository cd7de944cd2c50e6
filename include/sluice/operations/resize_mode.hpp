// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

// Kernels include this header, so it compiles as C++17.
namespace sluice {

/// How the elements around a position become one; see `resize`.
enum class resize_mode : std::uint8_t {
  nearest,  ///< the nearest element
  linear,   ///< the two nearest ones along each axis, by their distance: bilinear, trilinear
  cubic,    ///< the four nearest ones along each axis, by the cubic convolution of Keys (1981)
  area,     ///< the mean of the elements that a result covers, as `adaptive_pool` has it
};

/// The element that is nearest to a position.
enum class nearest_rounding : std::uint8_t {
  prefer_floor,  ///< the nearest one; halfway, the one before
  prefer_ceil,   ///< the nearest one; halfway, the one behind
  floor,         ///< the one before
  ceil,          ///< the one behind
};

/// Where result i lies among the elements of X along an axis. n is the extent of X and m that of Y;
/// the scale s is m / n, or the one that is given.
enum class resize_coordinates : std::uint8_t {
  half_pixel,            ///< (i + 1/2) / s - 1/2: the elements are squares
  half_pixel_symmetric,  ///< the same, with the centre of Y on that of X if s · n is no integer
  pytorch_half_pixel,    ///< `half_pixel`; 0 if m is 1
  align_corners,         ///< i · (n - 1) / (m - 1): first and last elements coincide; 0 if m is 1
  asymmetric,            ///< i / s
  /// From `roi_begin` · (n - 1) to `roi_end` · (n - 1), and half-way if m is 1. Positions outside X
  /// have the value `extrapolation`. `tf_crop_and_resize` in ONNX.
  crop,
};

/// How sizes are changed to keep the aspect ratio of X.
enum class resize_policy : std::uint8_t {
  stretch,      ///< they are not changed
  not_larger,   ///< the largest scale with which no extent is larger than its size
  not_smaller,  ///< the smallest scale with which no extent is smaller than its size
};

}  // namespace sluice
