// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sluice/export.hpp>
#include <sluice/operations/members.hpp>
#include <sluice/operations/operation_type.hpp>

#include <cstdint>
#include <tuple>

namespace sluice {

/// Where the rows and the columns of images are among the dimensions of a tensor.
enum class image_layout : std::uint8_t {
  channels_first,  ///< [..., height, width]
  channels_last,   ///< [..., height, width, channels]
};

/// Images of another size, by bilinear interpolation.
///
///     resize{.x = images, .height = 224, .width = 224}
///
/// Pixels are squares whose centres are at half-integers, and edges are repeated: row i of Y lies
/// at max((i + 1/2) · (height of X / height of Y) - 1/2, 0) among the rows of X. Shrinking skips
/// pixels; there is no antialiasing. PyTorch calls this `bilinear` with `align_corners=False,
/// antialias=False`.
///
/// A pixel of weight 0 is not read, so NaN and infinities reach only the pixels that they are a
/// part of. A row or a column that lies on the centre of a pixel has one pixel of weight 1.
///
/// Element types: u8, f16, bf16, f32, f64. f64 is computed in f64, all others in f32; positions are
/// computed in f64. u8 is rounded to the nearest integer, ties to even. All strides are allowed. X
/// and Y share no bytes. The result is Y, a new row-major tensor if it is not given.
struct resize {
  operand x{};              ///< X, with at least one pixel
  std::int64_t height = 0;  ///< height of Y, at least 1; 0: that of the Y that is given
  std::int64_t width = 0;   ///< width of Y, at least 1; 0: that of the Y that is given
  image_layout layout = image_layout::channels_first;  ///< which dimensions are resized
  operand y{};  ///< Y, of the type of X and of its shape but for height and width

  /// All members, in order.
  template <class = void>
  static constexpr auto members() {
    return std::make_tuple(input("x", &resize::x), parameter("height", &resize::height),
                           parameter("width", &resize::width), parameter("layout", &resize::layout),
                           output("y", &resize::y));
  }
};

/// The functions behind the operation.
[[nodiscard]] SLUICE_EXPORT const operation_descriptor& descriptor_of(operation_type<resize>);

}  // namespace sluice
