// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sluice/export.hpp>
#include <sluice/operations/members.hpp>
#include <sluice/operations/operation_type.hpp>
#include <sluice/runtime/element_type.hpp>

#include <cstdint>
#include <optional>
#include <tuple>

namespace sluice {

/// Real numbers as small integers, Y = saturate(round(X / scale) + zero point), or as numbers of 8
/// bits, Y = saturate(round(X / scale + zero point)).
///
///     quantize{.x = x, .scale = scale, .zero_point = zero_point}            // one pair for all
///     quantize{.x = weights, .scale = scales, .axis = 0, .type = element_type::i8}
///     quantize{.x = x, .scale = scale, .type = element_type::e4m3}
///
/// With an `axis`, scale has one number for each index along this dimension. Otherwise it is
/// broadcast to X as in NumPy, and an extent of it may also be a divisor of that of X: each number
/// then belongs to a block of X. So the scale of X of the shape [4096, 4096] may have the shape
/// [4096, 32] for blocks of 128 elements along rows, or [32, 32] for blocks of 128 × 128. The
/// dimensions of X and those with blocks are at most 8, without extents of 1.
///
/// The quotient and the sum are computed in f32. The quotient is rounded to the nearest integer,
/// ties to even, or the sum to the nearest e4m3 or e5m2. Numbers out of range become the nearest
/// one in range. NaN becomes 0, and stays NaN in e4m3 and e5m2. ONNX calls this QuantizeLinear.
///
/// All operands have any strides, and Y shares no bytes with the others. The result is Y, a new
/// tensor without gaps if it is not given, whose dimensions lie in the order of those of X.
struct quantize {
  operand x{};                         ///< X: f16, bf16, f32 or i32
  operand scale{};                     ///< f16, bf16 or f32
  operand zero_point{};                ///< of the shape of scale; 0 if not given
  std::optional<std::int64_t> axis{};  ///< the dimension of the scales; negative: from the last
  /// Type of Y and of the zero point: u8, i8, u16, i16, e4m3 or e5m2. If it is not given: that of
  /// the zero point, of Y, or u8.
  std::optional<element_type> type{};
  operand y{};  ///< Y, of the shape of X

  /// All members, in order.
  template <class = void>
  static constexpr auto members() {
    return std::make_tuple(input("x", &quantize::x), input("scale", &quantize::scale),
                           input("zero_point", &quantize::zero_point),
                           parameter("axis", &quantize::axis), parameter("type", &quantize::type),
                           output("y", &quantize::y));
  }
};

/// Real numbers from small integers or numbers of 8 bits: Y = (X - zero point) · scale.
///
///     dequantize{.x = x, .scale = scale, .zero_point = zero_point}
///
/// Which scale belongs to an element: see `quantize`. The difference and the product are computed
/// in f32; an i32 is rounded to f32 first. ONNX calls this DequantizeLinear.
///
/// All operands have any strides, and Y shares no bytes with the others. The result is Y, a new
/// tensor without gaps if it is not given, whose dimensions lie in the order of those of X.
struct dequantize {
  operand x{};                         ///< X: u8, i8, u16, i16, i32, e4m3 or e5m2
  operand scale{};                     ///< f16, bf16 or f32
  operand zero_point{};                ///< of the type of X and the shape of scale; none of i32
  std::optional<std::int64_t> axis{};  ///< the dimension of the scales; negative: from the last
  /// Type of Y: f16, bf16 or f32. If it is not given: that of Y, or of scale.
  std::optional<element_type> type{};
  operand y{};  ///< Y, of the shape of X

  /// All members, in order.
  template <class = void>
  static constexpr auto members() {
    return std::make_tuple(input("x", &dequantize::x), input("scale", &dequantize::scale),
                           input("zero_point", &dequantize::zero_point),
                           parameter("axis", &dequantize::axis),
                           parameter("type", &dequantize::type), output("y", &dequantize::y));
  }
};

/// Real numbers as bytes, with the scale and the zero point that fit the smallest and the largest
/// one.
///
///     const tensors quantized = …  // the answer to dynamic_quantize{.x = x}
///     dequantize{.x = quantized[0], .scale = quantized[1], .zero_point = quantized[2]}
///
/// With least = min(0, smallest of X) and most = max(0, largest of X):
///
///     scale = (most - least) / 255, or 1 if that is 0
///     zero_point = round(-least / scale)
///     Y = saturate(round(X / scale) + zero_point)
///
/// All are computed in f32, and rounded as in `quantize`. This is DynamicQuantizeLinear of ONNX,
/// which leaves open what becomes of zeros. If X has a NaN, scale is NaN and Y is 0.
///
/// All operands have any strides and share no bytes. A Y that is not given is a new tensor without
/// gaps, whose dimensions lie in the order of those of X. The answer is `tensors`: y, scale,
/// zero_point.
struct dynamic_quantize {
  operand x{};           ///< X: f16, bf16 or f32, of any shape
  operand y{};           ///< Y, of type u8 and the shape of X
  operand scale{};       ///< one number of type f32, without dimensions
  operand zero_point{};  ///< one number of type u8, without dimensions

  /// All members, in order.
  template <class = void>
  static constexpr auto members() {
    return std::make_tuple(input("x", &dynamic_quantize::x), output("y", &dynamic_quantize::y),
                           output("scale", &dynamic_quantize::scale),
                           output("zero_point", &dynamic_quantize::zero_point));
  }
};

/// The functions behind the operations.
///@{
[[nodiscard]] SLUICE_EXPORT const operation_descriptor& descriptor_of(operation_type<quantize>);
[[nodiscard]] SLUICE_EXPORT const operation_descriptor& descriptor_of(operation_type<dequantize>);
[[nodiscard]] SLUICE_EXPORT const operation_descriptor& descriptor_of(
    operation_type<dynamic_quantize>);
///@}

}  // namespace sluice
