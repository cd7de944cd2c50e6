// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sluice/export.hpp>
#include <sluice/operations/depth_order.hpp>
#include <sluice/operations/members.hpp>
#include <sluice/operations/operation_type.hpp>
#include <sluice/runtime/extents.hpp>

#include <cstdint>
#include <tuple>

namespace sluice {

/// Channels of images as blocks of a larger image with fewer channels.
///
///     depth_to_space{.x = x, .block = 2}  // [n, 4 · c, h, w] becomes [n, c, 2 · h, 2 · w]
///
/// Y[n, c, h · block + i, w · block + j] is X[n, k, h, w] with k = (i · block + j) · C + c in the
/// order `dcr`, where C are the channels of Y, and with k = c · block² + i · block + j in the order
/// `crd`. The latter is `pixel_shuffle` of PyTorch. ONNX calls both DepthToSpace.
///
/// Elements are copied bit by bit. X and Y have any strides and share no bytes. The result is Y, a
/// new row-major tensor if it is not given.
struct depth_to_space {
  operand x{};                           ///< X, of any type and four dimensions: (N, C, H, W)
  std::int64_t block = 0;                ///< edge of a block, at least 1
  depth_order order = depth_order::dcr;  ///< which channel has which element of a block
  operand y{};                           ///< Y, of the type of X

  /// All members, in order.
  template <class = void>
  static constexpr auto members() {
    return std::make_tuple(
        input("x", &depth_to_space::x), parameter("block", &depth_to_space::block),
        parameter("order", &depth_to_space::order), output("y", &depth_to_space::y));
  }
};

/// The inverse of `depth_to_space`: blocks of images as channels of a smaller one.
///
///     space_to_depth{.x = x, .block = 2}  // [n, c, 2 · h, 2 · w] becomes [n, 4 · c, h, w]
///
/// ONNX calls this SpaceToDepth in the order `dcr`, PyTorch `pixel_unshuffle` in the order `crd`.
///
/// Elements are copied bit by bit. X and Y have any strides and share no bytes. The result is Y, a
/// new row-major tensor if it is not given.
struct space_to_depth {
  operand x{};                           ///< X, of any type and four dimensions: (N, C, H, W)
  std::int64_t block = 0;                ///< edge of a block, at least 1; divides H and W
  depth_order order = depth_order::dcr;  ///< which channel has which element of a block
  operand y{};                           ///< Y, of the type of X

  /// All members, in order.
  template <class = void>
  static constexpr auto members() {
    return std::make_tuple(
        input("x", &space_to_depth::x), parameter("block", &space_to_depth::block),
        parameter("order", &space_to_depth::order), output("y", &space_to_depth::y));
  }
};

/// X with the last element along some dimensions first: Y[i] = X[extent - 1 - i].
///
///     reverse{.x = x, .axes = {-1}}
///     reverse{.x = x.slice(0, 1, 8, 3), .axes = {0}}  // the elements 7, 4 and 1: x[7:0:-3]
///
/// A slice with a positive step is a view, `tensor::slice`, and copies nothing. One with a negative
/// step is the reverse of such a view. NumPy calls this `flip`.
///
/// Elements are copied bit by bit. X and Y have any strides and share no bytes. The result is Y, a
/// new row-major tensor if it is not given.
struct reverse {
  operand x{};     ///< X, of any type
  extents axes{};  ///< dimensions, each at most once; negative: from the last
  operand y{};     ///< Y, of the type and the shape of X

  /// All members, in order.
  template <class = void>
  static constexpr auto members() {
    return std::make_tuple(input("x", &reverse::x), parameter("axes", &reverse::axes),
                           output("y", &reverse::y));
  }
};

/// X with the first elements of each sequence in the reverse order. Their number is the length of
/// the sequence.
///
///     reverse_sequence{.x = x, .lengths = lengths, .time_axis = 1, .batch_axis = 0}
///
/// Along the dimension of time, Y[t] is X[length - 1 - t] for t below the length, and otherwise
/// X[t]. Only the device knows the lengths: one below 0 counts as 0, and one above the extent as
/// the extent. ONNX calls this ReverseSequence.
///
/// Elements are copied bit by bit. All operands have any strides, and Y shares no bytes with the
/// others. The result is Y, a new row-major tensor if it is not given.
struct reverse_sequence {
  operand x{};                  ///< X, of any type and at least two dimensions
  operand lengths{};            ///< one for each sequence; i32 or i64
  std::int64_t time_axis = 0;   ///< the dimension that is reversed; negative: from the last
  std::int64_t batch_axis = 1;  ///< the dimension of the sequences; another one
  operand y{};                  ///< Y, of the type and the shape of X

  /// All members, in order.
  template <class = void>
  static constexpr auto members() {
    return std::make_tuple(
        input("x", &reverse_sequence::x), input("lengths", &reverse_sequence::lengths),
        parameter("time_axis", &reverse_sequence::time_axis),
        parameter("batch_axis", &reverse_sequence::batch_axis), output("y", &reverse_sequence::y));
  }
};

/// The windows of images as columns of matrices.
///
///     im2col{.x = images, .window = {3, 3}, .before = {1, 1}, .after = {1, 1}}
///
/// X has the shape (N, C, H, W), and Y the shape (N, C · window[0] · window[1], L). Row
/// (c · window[0] + i) · window[1] + j has the element [i, j] of channel c of each of the L
/// windows; the windows are numbered in row-major order. Elements in the padding are 0. The number
/// of windows along a dimension is that of `pool` without `ceil_mode`. PyTorch calls this `unfold`.
///
/// Elements are copied bit by bit. X and Y have any strides and share no bytes. The result is Y, a
/// new row-major tensor if it is not given.
struct im2col {
  operand x{};         ///< X, of any type
  extents window{};    ///< height and width of a window, at least 1
  extents strides{};   ///< between windows, at least 1; 1 if not given
  extents before{};    ///< padding before X, at least 0; 0 if not given
  extents after{};     ///< padding after X, at least 0; 0 if not given
  extents dilation{};  ///< between elements of a window, at least 1; 1 if not given
  operand y{};         ///< Y, of the type of X

  /// All members, in order.
  template <class = void>
  static constexpr auto members() {
    return std::make_tuple(input("x", &im2col::x), parameter("window", &im2col::window),
                           parameter("strides", &im2col::strides),
                           parameter("before", &im2col::before), parameter("after", &im2col::after),
                           parameter("dilation", &im2col::dilation), output("y", &im2col::y));
  }
};

/// Images that are the sums of windows, which are columns of matrices.
///
///     col2im{.x = columns, .size = {32, 32}, .window = {3, 3}, .before = {1, 1}, .after = {1, 1}}
///
/// X is laid out as the result of `im2col`, and Y as its X: each element of Y is the sum of those
/// elements of X that `im2col` would have copied from it. They are added in the order of the rows
/// of X: f64 in f64, other real numbers in f32, and rounded once; integers wrap around. X is of any
/// type but boolean, e4m3 and e5m2. PyTorch calls this `fold`, ONNX Col2Im.
///
/// X and Y have any strides and share no bytes. The result is Y, a new row-major tensor if it is
/// not given.
struct col2im {
  operand x{};         ///< X, of the shape (N, C · window[0] · window[1], L)
  extents size{};      ///< height and width of the images, at least 1
  extents window{};    ///< height and width of a window, at least 1
  extents strides{};   ///< between windows, at least 1; 1 if not given
  extents before{};    ///< padding before Y, at least 0; 0 if not given
  extents after{};     ///< padding after Y, at least 0; 0 if not given
  extents dilation{};  ///< between elements of a window, at least 1; 1 if not given
  operand y{};         ///< Y, of the type of X and the shape (N, C, H, W)

  /// All members, in order.
  template <class = void>
  static constexpr auto members() {
    return std::make_tuple(input("x", &col2im::x), parameter("size", &col2im::size),
                           parameter("window", &col2im::window),
                           parameter("strides", &col2im::strides),
                           parameter("before", &col2im::before), parameter("after", &col2im::after),
                           parameter("dilation", &col2im::dilation), output("y", &col2im::y));
  }
};

/// The functions behind the operations.
///@{
[[nodiscard]] SLUICE_EXPORT const operation_descriptor& descriptor_of(
    operation_type<depth_to_space>);
[[nodiscard]] SLUICE_EXPORT const operation_descriptor& descriptor_of(
    operation_type<space_to_depth>);
[[nodiscard]] SLUICE_EXPORT const operation_descriptor& descriptor_of(operation_type<reverse>);
[[nodiscard]] SLUICE_EXPORT const operation_descriptor& descriptor_of(
    operation_type<reverse_sequence>);
[[nodiscard]] SLUICE_EXPORT const operation_descriptor& descriptor_of(operation_type<im2col>);
[[nodiscard]] SLUICE_EXPORT const operation_descriptor& descriptor_of(operation_type<col2im>);
///@}

}  // namespace sluice
