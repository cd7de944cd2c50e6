// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sluice/export.hpp>
#include <sluice/operations/activation.hpp>
#include <sluice/operations/math_mode.hpp>
#include <sluice/operations/members.hpp>
#include <sluice/operations/operation_type.hpp>
#include <sluice/runtime/extents.hpp>

#include <cstdint>
#include <tuple>

namespace sluice {

/// Y = activation(conv(X, W) + bias + residual), the forward convolution of neural networks
/// (cross-correlation), over one, two or three dimensions.
///
///     convolution{.x = signals, .w = filters, .strides = {2}, .before = {1}, .after = {1}}
///     convolution{.x = volumes, .w = filters, .bias = bias, .activation = activation::relu}
///
/// X has the shape (N, C, D1 … Dk) with k from 1 to 3, W (K, C/groups, R1 … Rk), the bias (K), and
/// the residual the shape of Y, which is (N, K, D1' … Dk') with
/// D' = ⌊(D + b + a − dilation · (R − 1) − 1) / stride⌋ + 1 for the padding b and a. These are the
/// rules of Conv of ONNX and of conv1d to conv3d of PyTorch. The lists below have k numbers each
/// and may be left out. `conv2d` is the same with names for two dimensions.
///
/// Element types: f16, bf16 and f32, one for all operands. Computed in f32; f32 as TF32 only if
/// `math` allows it. A result of 16 bits is rounded once on the host. A GPU may also round it
/// before it adds the bias and the residual. The residual is added before the activation, while
/// that of a `gemm` is added after it.
///
/// Layouts, aliasing and the result are those of `conv2d`: the elements of an image lie in the
/// order (C, D1 … Dk), or channels-last in the order (D1 … Dk, C).
struct convolution {
  operand x{};              ///< X
  operand w{};              ///< W, the filters
  operand bias{};           ///< one number for each filter; optional
  operand residual{};       ///< added before the activation; optional
  operand y{};              ///< Y
  extents strides{};        ///< between outputs, at least 1; 1 if not given
  extents before{};         ///< zeros before X, at least 0; 0 if not given
  extents after{};          ///< zeros after X, at least 0; 0 if not given
  extents dilation{};       ///< between the taps of a filter, at least 1; 1 if not given
  std::int64_t groups = 1;  ///< divides the channels of X and of Y
  sluice::activation activation = sluice::activation::none;  ///< applied to each element
  math_mode math = math_mode::f32;                           ///< precision of products of f32

  /// All members, in order.
  template <class = void>
  static constexpr auto members() {
    using self = convolution;
    return std::make_tuple(input("x", &self::x), input("w", &self::w), input("bias", &self::bias),
                           input("residual", &self::residual), output("y", &self::y),
                           parameter("strides", &self::strides), parameter("before", &self::before),
                           parameter("after", &self::after), parameter("dilation", &self::dilation),
                           parameter("groups", &self::groups),
                           parameter("activation", &self::activation),
                           parameter("math", &self::math));
  }
};

/// Y = activation(convᵀ(X, W) + bias + residual): each element of X adds the filters, times its
/// value, to Y. The gradient of a `convolution` with respect to its X.
///
///     transposed_convolution{.x = images, .w = filters, .strides = {2, 2}, .before = {1, 1},
///                            .after = {1, 1}, .output_padding = {1, 1}}
///
/// X has the shape (N, C, D1 … Dk) with k from 1 to 3 and no D of 0, W (C, K/groups, R1 … Rk), the
/// bias (K), and the residual the shape of Y, which is (N, K, D1' … Dk') with
/// D' = stride · (D − 1) + output_padding + dilation · (R − 1) + 1 − b − a. The padding b and a is
/// cut off from Y, and `output_padding` makes it longer at its end. These are the rules of
/// ConvTranspose of ONNX and of conv_transpose1d to conv_transpose3d of PyTorch. The lists have k
/// numbers each and may be left out.
///
/// Types, rounding, layouts, aliasing and the result: see `convolution`.
struct transposed_convolution {
  operand x{};               ///< X
  operand w{};               ///< W, the filters
  operand bias{};            ///< one number for each channel of Y; optional
  operand residual{};        ///< added before the activation; optional
  operand y{};               ///< Y
  extents strides{};         ///< between the places of the filters, at least 1; 1 if not given
  extents before{};          ///< elements cut off at the beginning, at least 0; 0 if not given
  extents after{};           ///< elements cut off at the end, at least 0; 0 if not given
  extents output_padding{};  ///< less than the stride or than the dilation; 0 if not given
  extents dilation{};        ///< between the taps of a filter, at least 1; 1 if not given
  std::int64_t groups = 1;   ///< divides the channels of X and of Y
  sluice::activation activation = sluice::activation::none;  ///< applied to each element
  math_mode math = math_mode::f32;                           ///< precision of products of f32

  /// All members, in order.
  template <class = void>
  static constexpr auto members() {
    using self = transposed_convolution;
    return std::make_tuple(
        input("x", &self::x), input("w", &self::w), input("bias", &self::bias),
        input("residual", &self::residual), output("y", &self::y),
        parameter("strides", &self::strides), parameter("before", &self::before),
        parameter("after", &self::after), parameter("output_padding", &self::output_padding),
        parameter("dilation", &self::dilation), parameter("groups", &self::groups),
        parameter("activation", &self::activation), parameter("math", &self::math));
  }
};

/// Y = conv(X - x zero point, W - w zero point) of small integers, in i32.
///
///     integer_convolution{.x = quantized[0], .w = filters, .x_zero_point = quantized[2]}
///
/// Shapes and lists are those of `convolution`; padding stands for the zero point of X. X and W are
/// of type u8 or i8, each of its own, and Y is of type i32. The zero point of X is one number of
/// the type of X, that of W one number of its type, or one for each filter: shapes [], [1] or [K].
/// Y is exact if no part of a sum leaves the range of i32, and wraps otherwise. This is ConvInteger
/// of ONNX. QLinearConv is one with a `dequantize` by the products of the scales, a bias and a
/// `quantize` behind it.
///
/// All operands have any strides, and Y shares no bytes with the others. The result is Y, a new
/// tensor without gaps if it is not given, whose dimensions lie in the order of those of X.
struct integer_convolution {
  operand x{};              ///< X
  operand w{};              ///< W, the filters
  operand x_zero_point{};   ///< 0 if not given
  operand w_zero_point{};   ///< 0 if not given
  operand y{};              ///< Y
  extents strides{};        ///< between outputs, at least 1; 1 if not given
  extents before{};         ///< padding before X, at least 0; 0 if not given
  extents after{};          ///< padding after X, at least 0; 0 if not given
  extents dilation{};       ///< between the taps of a filter, at least 1; 1 if not given
  std::int64_t groups = 1;  ///< divides the channels of X and of Y

  /// All members, in order.
  template <class = void>
  static constexpr auto members() {
    using self = integer_convolution;
    return std::make_tuple(input("x", &self::x), input("w", &self::w),
                           input("x_zero_point", &self::x_zero_point),
                           input("w_zero_point", &self::w_zero_point), output("y", &self::y),
                           parameter("strides", &self::strides), parameter("before", &self::before),
                           parameter("after", &self::after), parameter("dilation", &self::dilation),
                           parameter("groups", &self::groups));
  }
};

/// The padding before and after each dimension of X.
struct convolution_padding {
  extents before{};  ///< elements before X
  extents after{};   ///< elements after X
};
/// The end of X that gets the odd one of the zeros of `same_padding`.
enum class odd_padding : std::uint8_t { after, before };

/// The padding with which a convolution has ⌈D / stride⌉ outputs along a dimension of D elements:
/// the auto_pad SAME_UPPER of ONNX, or SAME_LOWER if the odd zero lies before X. VALID is no
/// padding.
///
///     const auto padding = same_padding({h, w}, {3, 3}, {2, 2});
///     convolution{.x = x, .w = w, .strides = {2, 2}, .before = padding.before,
///                 .after = padding.after}
///
/// @param x the extents D1 … Dk of X, at least 0
/// @param taps the extents R1 … Rk of a filter, at least 1
/// @param strides at least 1; 1 if empty
/// @param dilation at least 1; 1 if empty
/// @throws error `invalid_argument` if the lists differ in length, a number is out of range, or the
/// padding overflows
[[nodiscard]] SLUICE_EXPORT convolution_padding same_padding(const extents& x, const extents& taps,
                                                             const extents& strides = {},
                                                             const extents& dilation = {},
                                                             odd_padding odd = odd_padding::after);

/// The functions behind the operations.
///@{
[[nodiscard]] SLUICE_EXPORT const operation_descriptor& descriptor_of(operation_type<convolution>);
[[nodiscard]] SLUICE_EXPORT const operation_descriptor& descriptor_of(
    operation_type<transposed_convolution>);
[[nodiscard]] SLUICE_EXPORT const operation_descriptor& descriptor_of(
    operation_type<integer_convolution>);
///@}

}  // namespace sluice
