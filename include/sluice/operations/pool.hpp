// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sluice/export.hpp>
#include <sluice/operations/members.hpp>
#include <sluice/operations/operation_type.hpp>
#include <sluice/operations/pooling.hpp>
#include <sluice/runtime/extents.hpp>

#include <cstdint>
#include <tuple>

namespace sluice {

/// A number for each position of a window that moves over the spatial dimensions of X.
///
///     pool{.x = images, .window = {2, 2}, .strides = {2, 2}}
///     pool{.x = images, .kind = pooling::average, .window = {3, 3}, .before = {1, 1},
///          .after = {1, 1}}
///
/// X has the shape (N, C, D1 … Dk) with k from 1 to 3 and no D of 0. The lists below have k numbers
/// each; all but the window may be left out. Y has the shape (N, C, D1' … Dk'). Without
/// `ceil_mode`, D' = ⌊(D + b + a − r − 1) / s⌋ + 1 with the padding b and a, the stride s and the
/// reach r = dilation · (window − 1). With it, the quotient is rounded up, but no window begins in
/// the padding after X. These are the rules of MaxPool, AveragePool and LpPool of ONNX (opset 22)
/// and of PyTorch. Their strides differ when they are left out: here and in ONNX they are 1, in
/// PyTorch they are the window.
///
/// Types: f16, bf16, f32 and f64, and for `maximum` also i8 and u8. A sum of f64 is computed in
/// f64, one of the other types in f32 or f64; each result is rounded once. A window without
/// elements, which dilation beside padding can make, has the maximum −∞ or the lowest integer, the
/// average NaN unless padding is counted, and the norm 0. A norm is infinite if a power overflows.
///
/// X and Y have any strides and share no bytes. The result is Y, a new tensor without gaps if it is
/// not given, whose dimensions lie in the order of those of X: channels-last if X is. Of repeated
/// elements (strides of 0), it is row-major.
///
/// A pool over all of the spatial extents is a `reduce{.kind = reduction::max, .axes = {2, 3},
/// .keep_dims = true}`, or one with `mean`, `l1` or `l2`. It is faster than a window of that size.
struct pool {
  operand x{};                      ///< X
  pooling kind = pooling::maximum;  ///< what is made of a window
  extents window{};                 ///< elements of a window along each dimension, at least 1
  extents strides{};                ///< between windows, at least 1; 1 if not given
  extents before{};                 ///< padding before X, at most the reach; 0 if not given
  extents after{};                  ///< padding after X, at most the reach; 0 if not given
  extents dilation{};               ///< between elements of a window, at least 1; 1 if not given
  bool ceil_mode = false;           ///< whether a last window may reach beyond the padding
  /// For averages: whether the divisor counts padding. It never counts what is beyond the padding.
  /// False for all other kinds.
  bool count_padding = false;
  std::int64_t p = 2;  ///< of the norm `lp`, at least 1; 2 for all other kinds
  operand y{};         ///< Y

  /// All members, in order.
  template <class = void>
  static constexpr auto members() {
    return std::make_tuple(
        input("x", &pool::x), parameter("kind", &pool::kind), parameter("window", &pool::window),
        parameter("strides", &pool::strides), parameter("before", &pool::before),
        parameter("after", &pool::after), parameter("dilation", &pool::dilation),
        parameter("ceil_mode", &pool::ceil_mode), parameter("count_padding", &pool::count_padding),
        parameter("p", &pool::p), output("y", &pool::y));
  }
};

/// A number for each of a given number of windows that share the elements of X.
///
///     adaptive_pool{.x = images, .kind = pooling::average, .size = {7, 7}}
///
/// Along a dimension of D elements, window i of s consists of the elements from ⌊i · D / s⌋ to
/// before ⌈(i + 1) · D / s⌉, as in AdaptiveAvgPool and AdaptiveMaxPool of PyTorch. X has the shape
/// (N, C, D1 … Dk) with k from 1 to 3, and Y has the shape (N, C, s1 … sk). Types, layouts and
/// aliasing: see `pool`.
struct adaptive_pool {
  operand x{};                      ///< X
  pooling kind = pooling::average;  ///< what is made of a window
  extents size{};                   ///< windows along each dimension, at least 1
  std::int64_t p = 2;               ///< of the norm `lp`, at least 1; 2 for all other kinds
  operand y{};                      ///< Y

  /// All members, in order.
  template <class = void>
  static constexpr auto members() {
    return std::make_tuple(input("x", &adaptive_pool::x), parameter("kind", &adaptive_pool::kind),
                           parameter("size", &adaptive_pool::size),
                           parameter("p", &adaptive_pool::p), output("y", &adaptive_pool::y));
  }
};

/// The functions behind the operations.
///@{
[[nodiscard]] SLUICE_EXPORT const operation_descriptor& descriptor_of(operation_type<pool>);
[[nodiscard]] SLUICE_EXPORT const operation_descriptor& descriptor_of(
    operation_type<adaptive_pool>);
///@}

}  // namespace sluice
