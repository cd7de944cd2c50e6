// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sluice/export.hpp>
#include <sluice/operations/members.hpp>
#include <sluice/operations/operation_type.hpp>
#include <sluice/operations/optional_extents.hpp>
#include <sluice/operations/pad_mode.hpp>
#include <sluice/operations/scalar.hpp>
#include <sluice/runtime/element_type.hpp>
#include <sluice/runtime/extents.hpp>

#include <cstdint>
#include <limits>
#include <optional>
#include <tuple>

namespace sluice {

/// X with more elements along some dimensions, or with fewer.
///
///     pad{.x = images, .before = {0, 0, 1, 1}, .after = {0, 0, 1, 1}}
///
/// Y has `before[d]` elements before those of X along dimension d, and `after[d]` behind them.
/// Negative numbers crop X, first of all. `reflect` and `wrap` repeat X as often as it takes; a
/// mirror of one element is this element. ONNX and NumPy call this Pad.
///
/// Elements are copied bit by bit. X and Y have any strides and share no bytes. The result is Y, a
/// new row-major tensor if it is not given.
struct pad {
  operand x{};                         ///< X, of any type
  extents before{};                    ///< one number for each dimension; empty: 0 for all
  extents after{};                     ///< likewise
  pad_mode mode = pad_mode::constant;  ///< what Y has beside X; only `constant` without elements
  scalar value = 0;                    ///< of mode `constant`; 0 for all others
  operand y{};                         ///< Y, of the type of X

  /// All members, in order.
  template <class = void>
  static constexpr auto members() {
    return std::make_tuple(input("x", &pad::x), parameter("before", &pad::before),
                           parameter("after", &pad::after), parameter("mode", &pad::mode),
                           parameter("value", &pad::value), output("y", &pad::y));
  }
};

/// X again and again: Y[i] = X[i modulo the extent of X].
///
///     tile{.x = x, .repeats = {2, 3}}
///
/// Elements are copied bit by bit. X and Y have any strides and share no bytes. The result is Y, a
/// new row-major tensor if it is not given.
struct tile {
  operand x{};        ///< X, of any type
  extents repeats{};  ///< one number for each dimension, at least 0
  operand y{};        ///< Y, of the type of X, with `repeats[d]` times its extents

  /// All members, in order.
  template <class = void>
  static constexpr auto members() {
    return std::make_tuple(input("x", &tile::x), parameter("repeats", &tile::repeats),
                           output("y", &tile::y));
  }
};

/// X, shifted along some dimensions. What is shifted out at one end comes in at the other:
/// Y[i] = X[(i - shift) modulo the extent].
///
///     roll{.x = x, .shifts = {1, -2}, .axes = {0, 1}}
///
/// Elements are copied bit by bit. X and Y have any strides and share no bytes. The result is Y, a
/// new row-major tensor if it is not given.
struct roll {
  operand x{};       ///< X, of any type
  extents shifts{};  ///< one number for each of `axes`, of any size
  extents axes{};    ///< dimensions; negative: from the last; the shifts of one of them add up
  operand y{};       ///< Y, of the type and the shape of X

  /// All members, in order.
  template <class = void>
  static constexpr auto members() {
    return std::make_tuple(input("x", &roll::x), parameter("shifts", &roll::shifts),
                           parameter("axes", &roll::axes), output("y", &roll::y));
  }
};

/// The lower or the upper triangle of matrices, and 0 elsewhere.
///
///     triangle{.x = scores, .diagonal = -1}  // below the main diagonal
///
/// The last two dimensions of X are those of the matrices. The lower triangle has the elements
/// [i, j] with j - i <= `diagonal`, and the upper one those with j - i >= `diagonal`. ONNX
/// calls this Trilu, NumPy `tril` and `triu`.
///
/// Elements are copied bit by bit. X and Y have any strides. Y may be the same view as X; otherwise
/// they share no bytes. The result is Y, a new tensor without gaps if it is not given, whose
/// dimensions lie in the order of those of X.
struct triangle {
  operand x{};                ///< X, of any type
  bool upper = false;         ///< whether Y has the upper triangle
  std::int64_t diagonal = 0;  ///< the last diagonal of the triangle; 0: the main diagonal
  operand y{};                ///< Y, of the type and the shape of X

  /// All members, in order.
  template <class = void>
  static constexpr auto members() {
    return std::make_tuple(input("x", &triangle::x), parameter("upper", &triangle::upper),
                           parameter("diagonal", &triangle::diagonal), output("y", &triangle::y));
  }
};

/// Matrices with ones on a diagonal, where j - i = `diagonal`, and 0 elsewhere.
///
///     eye{.shape = {3, 3}, .type = element_type::f64}
///
/// Y has any strides. The result is Y, a new row-major tensor if it is not given.
struct eye {
  optional_extents shape{};            ///< shape of Y, two or more dimensions; that of the given Y
  std::int64_t diagonal = 0;           ///< 0: the main diagonal
  std::optional<element_type> type{};  ///< type of Y; that of the given Y, or f32
  operand y{};                         ///< Y

  /// All members, in order.
  template <class = void>
  static constexpr auto members() {
    return std::make_tuple(parameter("shape", &eye::shape), parameter("diagonal", &eye::diagonal),
                           parameter("type", &eye::type), output("y", &eye::y));
  }
};

/// Numbers at equal distances: Y[i] = start + i · step, as far as they are before the limit.
///
///     range{.limit = 4, .type = element_type::i64}       // 0 1 2 3
///     range{.start = 1, .limit = 0, .step = -0.25}       // 1 0.75 0.5 0.25
///
/// Y has max(⌈(limit - start) / step⌉, 0) elements. Integers are exact; start, limit and
/// step are in the range of i64. Floating-point numbers are
/// computed in f64 and rounded once; products and sums are rounded in turn. ONNX calls this Range,
/// NumPy `arange`. Y has any strides. The result is Y, a new tensor if it is not given.
struct range {
  scalar start = 0;                    ///< the first number
  std::optional<scalar> limit{};       ///< the number that Y does not reach
  scalar step = 1;                     ///< the distance, not 0
  std::optional<element_type> type{};  ///< integers or f16 to f64; that of the given Y, or f32
  operand y{};                         ///< Y, of one dimension

  /// All members, in order.
  template <class = void>
  static constexpr auto members() {
    return std::make_tuple(parameter("start", &range::start), parameter("limit", &range::limit),
                           parameter("step", &range::step), parameter("type", &range::type),
                           output("y", &range::y));
  }
};

/// A new dimension with one number where an index says so, and another one elsewhere.
///
///     one_hot{.indices = classes, .depth = 10}  // [n] becomes [n, 10]
///
/// Negative indices count from the end. An index out of range names no element: then all are `off`.
///
/// The indices and Y have any strides and share no bytes. The result is Y, a new row-major tensor
/// if it is not given.
struct one_hot {
  /// `depth`, until it is given.
  static constexpr std::int64_t not_given = std::numeric_limits<std::int64_t>::min();

  operand indices{};                   ///< of any shape with at most 7 dimensions; i32 or i64
  std::int64_t depth = not_given;      ///< extent of the new dimension, at least 0
  scalar on = 1;                       ///< where the index is
  scalar off = 0;                      ///< elsewhere
  std::int64_t axis = -1;              ///< the new dimension of Y; negative: from the last
  std::optional<element_type> type{};  ///< type of Y; that of the given Y, or f32
  operand y{};                         ///< Y

  /// All members, in order.
  template <class = void>
  static constexpr auto members() {
    return std::make_tuple(input("indices", &one_hot::indices), parameter("depth", &one_hot::depth),
                           parameter("on", &one_hot::on), parameter("off", &one_hot::off),
                           parameter("axis", &one_hot::axis), parameter("type", &one_hot::type),
                           output("y", &one_hot::y));
  }
};

/// The functions behind the operations.
///@{
[[nodiscard]] SLUICE_EXPORT const operation_descriptor& descriptor_of(operation_type<pad>);
[[nodiscard]] SLUICE_EXPORT const operation_descriptor& descriptor_of(operation_type<tile>);
[[nodiscard]] SLUICE_EXPORT const operation_descriptor& descriptor_of(operation_type<roll>);
[[nodiscard]] SLUICE_EXPORT const operation_descriptor& descriptor_of(operation_type<triangle>);
[[nodiscard]] SLUICE_EXPORT const operation_descriptor& descriptor_of(operation_type<eye>);
[[nodiscard]] SLUICE_EXPORT const operation_descriptor& descriptor_of(operation_type<range>);
[[nodiscard]] SLUICE_EXPORT const operation_descriptor& descriptor_of(operation_type<one_hot>);
///@}

}  // namespace sluice
