// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sluice/export.hpp>
#include <sluice/operations/members.hpp>
#include <sluice/operations/operation_type.hpp>
#include <sluice/operations/out_of_range_policy.hpp>

#include <cstdint>
#include <tuple>

namespace sluice {

/// Slices of X along one dimension: Y[a, i, b] = X[a, indices[i], b], where a, i and b stand for
/// any number of dimensions.
///
///     gather{.x = embeddings, .indices = tokens}  // the row of each token
///
/// Y has the shape of X with the dimension `axis` replaced by the shape of the indices, and at most
/// 8 dimensions. ONNX calls this Gather, NumPy `take`.
///
/// Indices are of type i32 or i64, and negative ones count from the end. Their values are known to
/// the device alone. `out_of_range` states what becomes of one that is out of range: it is clamped
/// to the nearest one in range, or the request fails with `invalid_argument`, a text that begins
/// with "indices", and an undefined Y. Nothing is read outside of X in either case. X without
/// elements along an indexed dimension is refused, unless Y has no elements.
///
/// Elements are copied bit by bit. All operands have any strides. Y shares no bytes with X or the
/// indices. The result is Y, a new row-major tensor if it is not given.
///
/// On a GPU, 16 bytes are copied at once if the inner dimensions have no gaps, and their size and
/// all addresses are multiples of 16 bytes. On the host, slices without gaps are copied as a whole.
struct gather {
  operand x{};            ///< X, of any type and with at least one dimension
  operand indices{};      ///< of any shape; i32 or i64
  std::int64_t axis = 0;  ///< the indexed dimension; negative: from the last
  out_of_range_policy out_of_range = out_of_range_policy::usual;  ///< of an index
  operand y{};                                                    ///< Y, of the type of X

  /// All members, in order.
  template <class = void>
  static constexpr auto members() {
    return std::make_tuple(input("x", &gather::x), input("indices", &gather::indices),
                           parameter("axis", &gather::axis),
                           parameter("out_of_range", &gather::out_of_range),
                           output("y", &gather::y));
  }
};

/// Elements of X, each with an index of its own along one dimension: with `axis` = 1,
/// Y[i, j, k] = X[i, indices[i, j, k], k].
///
///     gather_elements{.x = scores, .indices = best, .axis = 1}
///
/// The indices have as many dimensions as X, and along others than `axis` no more elements. Y has
/// the shape of the indices. ONNX calls this GatherElements, PyTorch `gather`.
///
/// Indices, layouts and aliasing: see `gather`.
struct gather_elements {
  operand x{};            ///< X, of any type and with at least one dimension
  operand indices{};      ///< i32 or i64
  std::int64_t axis = 0;  ///< the indexed dimension; negative: from the last
  out_of_range_policy out_of_range = out_of_range_policy::usual;  ///< of an index
  operand y{};  ///< Y, of the type of X and the shape of the indices

  /// All members, in order.
  template <class = void>
  static constexpr auto members() {
    return std::make_tuple(input("x", &gather_elements::x),
                           input("indices", &gather_elements::indices),
                           parameter("axis", &gather_elements::axis),
                           parameter("out_of_range", &gather_elements::out_of_range),
                           output("y", &gather_elements::y));
  }
};

/// Slices of X at points of several dimensions: Y[b, i, c] = X[b, indices[b, i, :], c].
///
///     gather_nd{.x = image, .indices = points}  // points of the shape [n, 2]: n pixels
///
/// b are the first `batch_dims` dimensions, which X and the indices have in common. The last
/// dimension of the indices has one index for each of the next k dimensions of X, 1 <= k, and c are
/// the remaining dimensions of X. Y has at most 8 dimensions. ONNX calls this GatherND.
///
/// Indices, layouts and aliasing: see `gather`.
struct gather_nd {
  operand x{};                  ///< X, of any type and with at least one dimension
  operand indices{};            ///< of the shape [b, i, k]; i32 or i64
  std::int64_t batch_dims = 0;  ///< number of the dimensions b
  out_of_range_policy out_of_range = out_of_range_policy::usual;  ///< of an index
  operand y{};                                                    ///< Y, of the type of X

  /// All members, in order.
  template <class = void>
  static constexpr auto members() {
    return std::make_tuple(input("x", &gather_nd::x), input("indices", &gather_nd::indices),
                           parameter("batch_dims", &gather_nd::batch_dims),
                           parameter("out_of_range", &gather_nd::out_of_range),
                           output("y", &gather_nd::y));
  }
};

/// The functions behind the operations.
///@{
[[nodiscard]] SLUICE_EXPORT const operation_descriptor& descriptor_of(operation_type<gather>);
[[nodiscard]] SLUICE_EXPORT const operation_descriptor& descriptor_of(
    operation_type<gather_elements>);
[[nodiscard]] SLUICE_EXPORT const operation_descriptor& descriptor_of(operation_type<gather_nd>);
///@}

}  // namespace sluice
