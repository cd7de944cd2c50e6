// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sluice/export.hpp>
#include <sluice/operations/members.hpp>
#include <sluice/operations/operation_type.hpp>

#include <cstdint>
#include <limits>
#include <tuple>

namespace sluice {

/// The elements of X along a dimension in order, and the positions where they were.
///
///     const tensors sorted = …  // the answer to sort{.x = scores}
///     sorted[0]                 // the values
///     sorted[1]                 // their positions along the dimension in X, i64
///
/// X is of any type but e4m3, e5m2, c64 and c128, and has at least one dimension. All strides are
/// allowed. Equal elements keep their order. NaN is larger than every number, and -0 equals 0.
///
/// Values and indices have the shape of X and share no bytes with X or each other. Those that are
/// not given are new row-major tensors. The answer is `tensors`: values, indices.
struct sort {
  operand x{};              ///< X
  std::int64_t axis = -1;   ///< the dimension along which X is sorted; negative: from the last
  bool descending = false;  ///< whether the largest element comes first
  operand values{};         ///< the elements, of the type of X
  operand indices{};        ///< their positions, of type i64

  /// All members, in order.
  template <class = void>
  static constexpr auto members() {
    return std::make_tuple(input("x", &sort::x), parameter("axis", &sort::axis),
                           parameter("descending", &sort::descending),
                           output("values", &sort::values), output("indices", &sort::indices));
  }
};

/// The largest or the smallest elements of X along a dimension, in order, and their positions.
///
///     top_k{.x = scores, .k = 5}
///
/// The result is that of `sort`, of which the first `k` along the dimension are kept: the largest
/// one comes first, or the smallest one if `largest` is false. Of equal elements, those with
/// smaller positions are kept. A `k` that is not given, negative
/// or larger than the extent is refused.
struct top_k {
  /// The value of `k` if it is not given.
  static constexpr std::int64_t not_given = std::numeric_limits<std::int64_t>::min();

  operand x{};                 ///< X
  std::int64_t k = not_given;  ///< from 0 to the extent of X along the dimension
  std::int64_t axis = -1;      ///< the dimension; negative: from the last
  bool largest = true;         ///< whether the largest elements are kept, or the smallest
  operand values{};            ///< the elements, of the type of X
  operand indices{};           ///< their positions, of type i64

  /// All members, in order.
  template <class = void>
  static constexpr auto members() {
    return std::make_tuple(input("x", &top_k::x), parameter("k", &top_k::k),
                           parameter("axis", &top_k::axis), parameter("largest", &top_k::largest),
                           output("values", &top_k::values), output("indices", &top_k::indices));
  }
};

/// The functions behind the operations.
///@{
[[nodiscard]] SLUICE_EXPORT const operation_descriptor& descriptor_of(operation_type<sort>);
[[nodiscard]] SLUICE_EXPORT const operation_descriptor& descriptor_of(operation_type<top_k>);
///@}

}  // namespace sluice
