// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sluice/export.hpp>
#include <sluice/operations/members.hpp>
#include <sluice/operations/operation_type.hpp>
#include <sluice/operations/resize_mode.hpp>
#include <sluice/runtime/extents.hpp>

#include <array>
#include <cstddef>
#include <tuple>

namespace sluice {

/// X with other extents along one to three axes, by interpolation.
///
///     resize{.x = images, .sizes = {224, 224}}                    // channels first
///     resize{.x = images, .sizes = {224, 224}, .axes = {-3, -2}}  // channels last
///     resize{.x = images, .scales = {2, 2}, .mode = resize_mode::cubic}
///
/// The definition is that of Resize in ONNX (opset 19). Along each axis, a result lies at a
/// position among the elements of X (`resize_coordinates`), and is a sum of weighted elements
/// around it (`resize_mode`). Beyond the edges, elements are repeated. With several axes, weights
/// are products.
///
/// Extents are `sizes`, or ⌊scale · extent⌋ with `scales`. With neither, they are those of the Y
/// that is given, along `axes`. With a `policy` that keeps the aspect ratio, one scale serves all
/// axes, and extents are rounded, halves up.
///
/// The defaults of `linear` are those of `torch.nn.functional.interpolate` with
/// `align_corners=False`. PyTorch's `nearest` is `asymmetric` with `floor`, and `nearest-exact` is
/// `half_pixel` with `prefer_ceil`. With `antialias`, PyTorch leaves elements outside out
/// (`exclude_outside`), and its cubic filter has a = -0.5.
///
/// An element of weight 0 is not read, so NaN and infinities reach only the results that they are a
/// part of.
///
/// Element types: u8, i8, f16, bf16, f32, f64. f64 is computed in f64, all others in f32; positions
/// are computed in f64. Integers are rounded to the nearest one, ties to even, and saturated. All
/// strides are allowed. X and Y share no bytes. The result is Y, a new row-major tensor if it is
/// not given.
struct resize {
  /// The largest number of axes.
  static constexpr std::size_t max_axes = 3;
  /// One number for each axis.
  using numbers = std::array<double, max_axes>;

  operand x{};       ///< X, with at least one element along the axes
  extents sizes{};   ///< extents of Y along the axes, at least 1
  numbers scales{};  ///< instead of sizes: of Y to X, above 0, as many as axes; the others are 0
  extents axes{};    ///< resized dimensions, negative: from the last; the last ones if not given
  resize_mode mode = resize_mode::linear;                           ///< the interpolation
  resize_coordinates coordinates = resize_coordinates::half_pixel;  ///< not for `area`
  nearest_rounding rounding = nearest_rounding::prefer_floor;       ///< of `nearest`
  resize_policy policy = resize_policy::stretch;                    ///< what `sizes` stand for
  bool antialias = false;        ///< for `linear` and `cubic`: stretches the filter if Y is smaller
  bool exclude_outside = false;  ///< for `linear` and `cubic`: leaves out what is beyond the edges
  double a = -0.75;              ///< of the cubic convolution
  numbers roi_begin{};           ///< of `crop`, in parts of X
  numbers roi_end{1, 1, 1};      ///< of `crop`, in parts of X
  double extrapolation = 0;      ///< of `crop`: the value of positions outside X
  operand y{};                   ///< Y, of the type of X

  /// All members, in order.
  template <class = void>
  static constexpr auto members() {
    return std::make_tuple(
        input("x", &resize::x), parameter("sizes", &resize::sizes),
        parameter("scales", &resize::scales), parameter("axes", &resize::axes),
        parameter("mode", &resize::mode), parameter("coordinates", &resize::coordinates),
        parameter("rounding", &resize::rounding), parameter("policy", &resize::policy),
        parameter("antialias", &resize::antialias),
        parameter("exclude_outside", &resize::exclude_outside), parameter("a", &resize::a),
        parameter("roi_begin", &resize::roi_begin), parameter("roi_end", &resize::roi_end),
        parameter("extrapolation", &resize::extrapolation), output("y", &resize::y));
  }
};

/// The functions behind the operation.
[[nodiscard]] SLUICE_EXPORT const operation_descriptor& descriptor_of(operation_type<resize>);

}  // namespace sluice
