// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sluice/export.hpp>
#include <sluice/operations/activation.hpp>
#include <sluice/operations/math_mode.hpp>
#include <sluice/operations/members.hpp>
#include <sluice/operations/operation_type.hpp>
#include <sluice/runtime/extents.hpp>

#include <compare>
#include <cstdint>
#include <optional>
#include <tuple>

namespace sluice {

/// How filters move over the input of a 2-D convolution:
///
///     conv2d_geometry{.padding = {1}, .stride = {.h = 2, .w = 1}, .groups = 4}
struct conv2d_geometry {
  /// A number of elements along the height and the width. One number is for both: `{1}`.
  struct widths {
    std::int64_t h = 0;  ///< along the height
    std::int64_t w = h;  ///< along the width
    [[nodiscard]] auto operator<=>(const widths&) const noexcept = default;
  };
  /// The distance to the next element along the height and the width. Likewise.
  struct steps {
    std::int64_t h = 1;  ///< along the height
    std::int64_t w = h;  ///< along the width
    [[nodiscard]] auto operator<=>(const steps&) const noexcept = default;
  };

  widths padding{};                       ///< zeros above and left of X, at least 0
  std::optional<widths> padding_after{};  ///< zeros below and right of X; `padding` if not given
  steps stride{};                         ///< between outputs, at least 1
  steps dilation{};                       ///< between the taps of a filter, at least 1
  std::int64_t groups = 1;                ///< divides the channels of X and of Y
  [[nodiscard]] auto operator<=>(const conv2d_geometry&) const noexcept = default;
};

/// The shape (N, K, H', W') of the result for X of shape (N, C, H, W) and filters of shape
/// (K, C/groups, R, S).
///
/// H' = ⌊(H + b + a − d(R − 1) − 1) / t⌋ + 1 with the padding b above and a below, the dilation d
/// and the stride t of the height. W' likewise. H' and W' are at least 1.
/// @throws error `invalid_argument` if `x` or `w` does not have 4 dimensions, an extent is
/// negative, or R or S is 0
/// @throws error `invalid_argument` if a member of `geometry` is out of range, or `groups` does not
/// divide the channels
/// @throws error `invalid_argument` if the filters do not have the channels of a group, or exceed
/// the padded input
/// @throws error `invalid_argument` if the padded input, the dilated filter or the size of the
/// result overflows
[[nodiscard]] SLUICE_EXPORT extents conv2d_output_shape(const extents& x, const extents& w,
                                                        const conv2d_geometry& geometry);

/// Y = activation(conv(X, W) + bias + residual), the forward 2-D convolution of neural networks
/// (cross-correlation). `convolution` is the same for one to three dimensions.
///
///     conv2d{.x = images, .w = filters, .geometry = {.padding = {.h = 1, .w = 1}}}
///
/// X has the shape (N, C, H, W), W (K, C/groups, R, S), the bias (K), and Y and the residual the
/// shape that `conv2d_output_shape` states. Element types: f16, bf16 and f32, one for all operands.
/// Computed in f32; f32 as TF32 only if `math` allows it. A result of 16 bits is rounded once on
/// the host. A GPU may also round it before it adds the bias and the residual. Y shares no bytes
/// with the others. The result is Y, a new tensor if it is not given.
///
/// The launch takes images whose elements lie in the order (C, H, W), or channels-last in the order
/// (H, W, C), without gaps. The images of X and of Y may stand apart, as in every second image of a
/// batch or in some channels of larger images. W, the residual and Y lie as X does, W and the bias
/// without gaps.
/// An operand with another layout is packed: the launch uses a copy in temporary memory. A new Y
/// has no gaps and lies as X does.
struct conv2d {
  operand x{};                 ///< X
  operand w{};                 ///< W, the filters
  operand bias{};              ///< one number for each filter; optional
  operand y{};                 ///< Y
  conv2d_geometry geometry{};  ///< how the filters move over X
  sluice::activation activation = sluice::activation::none;  ///< applied to each element
  math_mode math = math_mode::f32;                           ///< precision of the products of f32
  operand residual{};  ///< added before the activation, unlike that of `gemm`; optional

  /// All members, in order.
  template <class = void>
  static constexpr auto members() {
    return std::make_tuple(input("x", &conv2d::x), input("w", &conv2d::w),
                           input("bias", &conv2d::bias), output("y", &conv2d::y),
                           parameter("geometry", &conv2d::geometry),
                           parameter("activation", &conv2d::activation),
                           parameter("math", &conv2d::math), input("residual", &conv2d::residual));
  }
};

/// The functions behind `conv2d`.
[[nodiscard]] SLUICE_EXPORT const operation_descriptor& descriptor_of(operation_type<conv2d>);

}  // namespace sluice
