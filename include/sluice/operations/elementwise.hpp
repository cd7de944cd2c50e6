// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sluice/export.hpp>
#include <sluice/operations/binary.hpp>
#include <sluice/operations/members.hpp>
#include <sluice/operations/operation_type.hpp>
#include <sluice/operations/scalar.hpp>
#include <sluice/operations/unary.hpp>

#include <cstdint>
#include <optional>
#include <tuple>

namespace sluice {

/// The elements of X in another type.
///
///     cast{.x = image, .type = element_type::f32}
///
/// Each element is rounded once, to the nearest value, ties to even. Conversions to integers
/// truncate toward zero and saturate; NaN becomes 0. Any type converts to boolean: an element is
/// true if it is not 0. Real types convert to complex types, but not the other way.
///
/// A number beyond the range of e4m3 or e5m2, also an infinity, becomes the nearest one in range.
/// If `saturate` is false, it becomes infinite in e5m2, and NaN in e4m3, which has no infinities.
/// Other types are not concerned.
///
/// X and Y have any strides. Y may be the same view as X; otherwise they share no bytes. The result
/// is Y, a new tensor without gaps if it is not given, whose dimensions lie in the order of those
/// of X.
struct cast {
  operand x{};                         ///< X, of any shape and type
  std::optional<element_type> type{};  ///< type of Y; not needed if Y is given
  bool saturate = true;                ///< of e4m3 and e5m2: to the largest number
  operand y{};                         ///< Y, of the shape of X

  /// All members, in order.
  template <class = void>
  static constexpr auto members() {
    return std::make_tuple(input("x", &cast::x), parameter("type", &cast::type),
                           parameter("saturate", &cast::saturate), output("y", &cast::y));
  }
};

/// The elements of X, bit by bit, in memory of another layout.
///
///     strided_copy{.x = image.permute({2, 0, 1})}  // channels first, without gaps
///
/// X and Y have any strides and share no bytes. The result is Y, a new row-major tensor if it is
/// not given.
struct strided_copy {
  operand x{};  ///< X, of any shape and type
  operand y{};  ///< Y, of the shape and type of X

  /// All members, in order.
  template <class = void>
  static constexpr auto members() {
    return std::make_tuple(input("x", &strided_copy::x), output("y", &strided_copy::y));
  }
};

/// Y = X · scale + bias, with a scale and a bias for each channel or each element.
///
///     affine{.x = bytes, .scale = s, .bias = b, .axis = 0}       // channels first
///     affine{.x = bytes, .factor = 1.0 / 255, .offset = -0.5}    // the same for all
///
/// X, scale and bias are of any types but e4m3, e5m2 and complex ones; Y is f16, bf16, f32 or f64.
/// The computation is in f64 if an operand is f64, otherwise in f32; the product, the sum and the
/// result are rounded in turn. Without `axis`, scale and bias are broadcast to the shape of X as in
/// NumPy. With it, they are vectors along this dimension of X. All operands have any strides. Y may
/// be the same view as X, scale and bias; otherwise it shares no bytes with them. The result is Y,
/// a new tensor without gaps if it is not given, whose dimensions lie in the order of those of X.
struct affine {
  operand x{};                         ///< X, of any shape
  operand scale{};                     ///< scale of each channel; `factor` if not given
  operand bias{};                      ///< bias of each channel; `offset` if not given
  std::optional<scalar> factor{};      ///< scale of all channels, real; 1 if not given
  std::optional<scalar> offset{};      ///< bias of all channels, real; 0 if not given
  std::optional<std::int64_t> axis{};  ///< dimension of the channels; negative: from the last
  /// Type of Y. If neither it nor Y is given: that of X if it is a floating-point type, else f32.
  std::optional<element_type> type{};
  operand y{};  ///< Y, of the shape of X

  /// All members, in order.
  template <class = void>
  static constexpr auto members() {
    return std::make_tuple(input("x", &affine::x), input("scale", &affine::scale),
                           input("bias", &affine::bias), parameter("factor", &affine::factor),
                           parameter("offset", &affine::offset), parameter("axis", &affine::axis),
                           parameter("type", &affine::type), output("y", &affine::y));
  }
};

/// The elements of A where the condition is true, and those of B elsewhere.
///
///     where{.condition = mask, .a = x, .b = y}
///     where{.condition = mask, .a = x, .b = 0}
///
/// The operands are broadcast to one shape, and A or B may be a number; see `binary`. Elements are
/// copied bit by bit. All operands have any strides. Y may be the same view as A, B or both, or as
/// the condition if it is boolean; otherwise it shares no bytes with them. The result is Y, which
/// lies as that of `binary` if it is not given.
struct where {
  operand condition{};    ///< boolean
  operand_or_number a{};  ///< A, of any type
  operand_or_number b{};  ///< B, of the type of A
  operand y{};            ///< Y, of the common shape

  /// All members, in order.
  template <class = void>
  static constexpr auto members() {
    return std::make_tuple(input("condition", &where::condition), input("a", &where::a),
                           input("b", &where::b), output("y", &where::y));
  }
};

/// The functions behind the operations.
///@{
[[nodiscard]] SLUICE_EXPORT const operation_descriptor& descriptor_of(operation_type<cast>);
[[nodiscard]] SLUICE_EXPORT const operation_descriptor& descriptor_of(operation_type<strided_copy>);
[[nodiscard]] SLUICE_EXPORT const operation_descriptor& descriptor_of(operation_type<affine>);
[[nodiscard]] SLUICE_EXPORT const operation_descriptor& descriptor_of(operation_type<where>);
///@}

}  // namespace sluice
