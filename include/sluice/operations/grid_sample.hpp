// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sluice/export.hpp>
#include <sluice/operations/grid_mode.hpp>
#include <sluice/operations/members.hpp>
#include <sluice/operations/operation_type.hpp>

#include <tuple>

namespace sluice {

/// Samples of X at the positions of a grid, by interpolation.
///
///     grid_sample{.x = images, .grid = positions, .padding = grid_padding::border}
///
/// X has the shape (N, C, D1 … Dk) with k from 1 to 3 and no D of 0. The grid has the shape
/// (N, G1 … Gk, k), and Y has the shape (N, C, G1 … Gk). A position has k coordinates, that of the
/// last dimension of X first: (x, y) of an image, (x, y, z) of a volume. -1 and 1 are the borders
/// of X: the outer edges of the first and the last element, or with `align_corners` their centres.
/// A coordinate p lies at ((p + 1) · D - 1) / 2, or at (p + 1) · (D - 1) / 2. NaN stands for -1. An
/// element of weight 0 is not read.
///
/// These are the rules of GridSample in ONNX (opset 20) and of
/// `torch.nn.functional.grid_sample`. As in PyTorch, a position is first padded and then rounded.
///
/// Types: f16, bf16, f32 and f64, for X and Y the same, and for the grid any. If one of them is
/// f64, samples are computed in f64, otherwise in f32. All strides are allowed. Y shares no bytes
/// with X or the grid. The result is Y, a new row-major tensor if it is not given.
struct grid_sample {
  operand x{};                                 ///< X
  operand grid{};                              ///< the positions
  grid_mode mode = grid_mode::linear;          ///< what a sample is made of
  grid_padding padding = grid_padding::zeros;  ///< what lies outside of X
  bool align_corners = false;                  ///< whether borders are centres of elements
  operand y{};                                 ///< Y

  /// All members, in order.
  template <class = void>
  static constexpr auto members() {
    return std::make_tuple(
        input("x", &grid_sample::x), input("grid", &grid_sample::grid),
        parameter("mode", &grid_sample::mode), parameter("padding", &grid_sample::padding),
        parameter("align_corners", &grid_sample::align_corners), output("y", &grid_sample::y));
  }
};

/// The functions behind the operation.
[[nodiscard]] SLUICE_EXPORT const operation_descriptor& descriptor_of(operation_type<grid_sample>);

}  // namespace sluice
