// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sluice/export.hpp>
#include <sluice/operations/members.hpp>
#include <sluice/operations/operation_type.hpp>
#include <sluice/operations/scalar.hpp>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <tuple>
#include <type_traits>

namespace sluice {

/// The elements of X in another type.
///
///     cast{.x = image, .type = element_type::f32}
///
/// Each element is rounded once, to the nearest value, ties to even. Conversions to integers
/// truncate toward zero and saturate; NaN becomes 0. Any type converts to boolean: an element is
/// true if it is not 0. Real types convert to complex types, but not the other way. X and Y have
/// any strides. Y may be the same view as X; otherwise they share no bytes. The result is Y, a new
/// row-major tensor if it is not given.
struct cast {
  operand x{};                         ///< X, of any shape and type
  std::optional<element_type> type{};  ///< type of Y; not needed if Y is given
  operand y{};                         ///< Y, of the shape of X

  /// All members, in order.
  template <class = void>
  static constexpr auto members() {
    return std::make_tuple(input("x", &cast::x), parameter("type", &cast::type),
                           output("y", &cast::y));
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
/// X, scale and bias are of any types but complex ones; Y is f16, bf16, f32 or f64. The computation
/// is in f64 if an operand is f64, otherwise in f32; the product, the sum and the result are
/// rounded in turn. Without `axis`, scale and bias are broadcast to the shape of X as in NumPy.
/// With it, they are vectors along this dimension of X. All operands have any strides. Y may be the
/// same view as X, scale and bias; otherwise it shares no bytes with them. The result is Y, a new
/// row-major tensor if it is not given.
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

namespace detail {
template <class Operation>
[[nodiscard]] constexpr auto binary_members() {
  return std::make_tuple(input("a", &Operation::a), input("b", &Operation::b),
                         output("y", &Operation::y));
}
}  // namespace detail

/// The sums A + B.
///
///     add{.a = x, .b = bias}
///
/// What follows holds for all binary operations. A and B are of one type; `cast` converts. They
/// are broadcast to one shape as in NumPy: dimensions are aligned at the last one, and those that
/// are missing or have extent 1 are repeated. All operands have any strides. Integers wrap around.
/// f16 and bf16 are computed in f32. Every result is rounded once. Y may be the same view as A,
/// B or both; otherwise it shares no bytes with them. The result is Y, a new row-major tensor if it
/// is not given.
///
/// Element types: all. The sum of boolean elements is their disjunction.
struct add {
  operand a{};  ///< A
  operand b{};  ///< B, of the type of A
  operand y{};  ///< Y, of the type of A and of the common shape

  /// All members, in order.
  template <class = void>
  static constexpr auto members() {
    return detail::binary_members<add>();
  }
};

/// The differences A - B. Element types: all. The difference of boolean elements is whether they
/// differ. Otherwise like `add`.
struct subtract {
  operand a{};  ///< A
  operand b{};  ///< B
  operand y{};  ///< Y

  /// All members, in order.
  template <class = void>
  static constexpr auto members() {
    return detail::binary_members<subtract>();
  }
};

/// The products A · B. Element types: all. The parts of a complex product are rounded after each
/// multiplication and addition. Otherwise like `add`.
struct multiply {
  operand a{};  ///< A
  operand b{};  ///< B
  operand y{};  ///< Y

  /// All members, in order.
  template <class = void>
  static constexpr auto members() {
    return detail::binary_members<multiply>();
  }
};

/// The larger one of A and B: NaN if one is NaN; +0 is larger than -0. Element types: all but
/// complex ones. Otherwise like `add`.
struct maximum {
  operand a{};  ///< A
  operand b{};  ///< B
  operand y{};  ///< Y

  /// All members, in order.
  template <class = void>
  static constexpr auto members() {
    return detail::binary_members<maximum>();
  }
};

/// The smaller one of A and B: NaN if one is NaN; -0 is smaller than +0. Element types: all but
/// complex ones. Otherwise like `add`.
struct minimum {
  operand a{};  ///< A
  operand b{};  ///< B
  operand y{};  ///< Y

  /// All members, in order.
  template <class = void>
  static constexpr auto members() {
    return detail::binary_members<minimum>();
  }
};

/// Several operations.
template <class... Operations>
struct operation_list {};

/// All binary operations.
using binary_operations = operation_list<add, subtract, multiply, maximum, minimum>;

namespace detail {
/// The place of an operation in a list; the size of the list if it is not there.
template <class Operation, class... Operations>
[[nodiscard]] constexpr std::size_t place_in(operation_list<Operations...>) {
  std::size_t place = 0;
  (void)((std::is_same_v<Operation, Operations> || (++place, false)) || ...);
  return place;
}
template <class... Operations>
[[nodiscard]] constexpr std::size_t size_of_list(operation_list<Operations...>) {
  return sizeof...(Operations);
}
/// The functions behind a binary operation.
[[nodiscard]] SLUICE_EXPORT const operation_descriptor& binary_row(std::size_t place);
}  // namespace detail

/// One of `binary_operations`.
template <class Operation>
concept binary_operation = detail::place_in<Operation>(binary_operations{})
< detail::size_of_list(binary_operations{});

/// The functions behind the operations.
///@{
[[nodiscard]] SLUICE_EXPORT const operation_descriptor& descriptor_of(operation_type<cast>);
[[nodiscard]] SLUICE_EXPORT const operation_descriptor& descriptor_of(operation_type<strided_copy>);
[[nodiscard]] SLUICE_EXPORT const operation_descriptor& descriptor_of(operation_type<affine>);
template <binary_operation Operation>
[[nodiscard]] const operation_descriptor& descriptor_of(operation_type<Operation>) {
  return detail::binary_row(detail::place_in<Operation>(binary_operations{}));
}
///@}

}  // namespace sluice
