// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sluice/export.hpp>
#include <sluice/operations/members.hpp>
#include <sluice/operations/operation_type.hpp>
#include <sluice/operations/out_of_range_policy.hpp>
#include <sluice/operations/scatter_combine.hpp>

#include <cstdint>
#include <tuple>

namespace sluice {

/// Updates of elements of X, each with an index of its own along one dimension: with `axis` = 1,
/// Y[i, indices[i, j, k], k] is combined with updates[i, j, k].
///
///     scatter_elements{.x = x, .indices = i, .updates = u, .axis = 1}
///
/// The indices have as many dimensions as X, and along others than `axis` no more elements. ONNX
/// calls this ScatterElements, PyTorch `scatter` and `scatter_reduce`.
///
/// Y is a copy of X in which each update is combined with the element at its place. Y may be the
/// same view as X; then only the updated elements are touched. Otherwise it shares no bytes with X.
/// It shares no bytes with the indices and the updates. All operands have any strides. The result
/// is Y, a new row-major tensor if it is not given.
///
/// Indices are of type i32 or i64, and negative ones count from the end. Their values are known to
/// the device alone. `out_of_range` states what becomes of one that is out of range: it is clamped
/// to the nearest one in range, or the request fails with `invalid_argument`, a text that begins
/// with "indices", and an undefined Y. No memory outside of the operands changes in either case.
///
/// The order of several updates of one element: on the host, and on a GPU with `deterministic`,
/// that of the indices in row-major order. Otherwise a GPU takes them in any order: `set` leaves
/// one of them, sums and products of floating-point numbers may differ in the last bits from run to
/// run, and all other results do not depend on the order. Then a GPU also adds f32 and c64 with 0
/// in place of subnormal numbers.
///
/// Integers wrap around, f16 and bf16 are computed in f32, and each intermediate result is rounded
/// to the type of Y. c64 and c128 have no minimum or maximum, and e4m3 and e5m2 are only set. With
/// `deterministic`, and for products of c128, one thread of a GPU makes all updates of an element.
struct scatter_elements {
  operand x{};            ///< X, of any type, with a dimension
  operand indices{};      ///< i32 or i64
  operand updates{};      ///< of the type of X, the shape of the indices
  std::int64_t axis = 0;  ///< the indexed dimension; negative: from the last
  scatter_combine combine = scatter_combine::set;  ///< what becomes of an element and an update
  bool deterministic = false;  ///< whether a GPU makes updates in the order of the indices
  out_of_range_policy out_of_range = out_of_range_policy::usual;  ///< of an index
  operand y{};  ///< Y, of the type and the shape of X

  /// All members, in order.
  template <class = void>
  static constexpr auto members() {
    return std::make_tuple(
        input("x", &scatter_elements::x), input("indices", &scatter_elements::indices),
        input("updates", &scatter_elements::updates), parameter("axis", &scatter_elements::axis),
        parameter("combine", &scatter_elements::combine),
        parameter("deterministic", &scatter_elements::deterministic),
        parameter("out_of_range", &scatter_elements::out_of_range),
        output("y", &scatter_elements::y));
  }
};

/// Updates of slices of X at points of several dimensions: Y[indices[i, :], c] is combined with
/// updates[i, c].
///
///     scatter_nd{.x = table, .indices = rows, .updates = gradients,  // rows of the shape [n, 1]
///                .combine = scatter_combine::add, .y = table}
///
/// The last dimension of the indices has one index for each of the first k dimensions of X,
/// 1 <= k, and c are the remaining dimensions of X. ONNX calls this ScatterND.
///
/// Indices, order, rounding, layouts and aliasing: see `scatter_elements`.
struct scatter_nd {
  operand x{};                                     ///< X, of any type, with a dimension
  operand indices{};                               ///< of the shape [i, k]; i32 or i64
  operand updates{};                               ///< of the type of X and the shape [i, c]
  scatter_combine combine = scatter_combine::set;  ///< what becomes of an element and an update
  bool deterministic = false;  ///< whether a GPU makes updates in the order of the indices
  out_of_range_policy out_of_range = out_of_range_policy::usual;  ///< of an index
  operand y{};  ///< Y, of the type and the shape of X

  /// All members, in order.
  template <class = void>
  static constexpr auto members() {
    return std::make_tuple(
        input("x", &scatter_nd::x), input("indices", &scatter_nd::indices),
        input("updates", &scatter_nd::updates), parameter("combine", &scatter_nd::combine),
        parameter("deterministic", &scatter_nd::deterministic),
        parameter("out_of_range", &scatter_nd::out_of_range), output("y", &scatter_nd::y));
  }
};

/// The functions behind the operations.
///@{
[[nodiscard]] SLUICE_EXPORT const operation_descriptor& descriptor_of(
    operation_type<scatter_elements>);
[[nodiscard]] SLUICE_EXPORT const operation_descriptor& descriptor_of(operation_type<scatter_nd>);
///@}

}  // namespace sluice
