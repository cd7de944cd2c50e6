// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sluice/export.hpp>
#include <sluice/operations/members.hpp>
#include <sluice/operations/operation_type.hpp>
#include <sluice/runtime/extents.hpp>

#include <tuple>

namespace sluice {

/// The maxima of windows, and where they are in X.
///
///     const tensors pooled = …  // the answer to max_pool_with_indices{.x = images,
///                               //   .window = {2, 2}, .strides = {2, 2}}
///     pooled[0]                 // the maxima
///     pooled[1]                 // their indices, i64
///
/// Windows and shapes are those of a `pool`. An index is that of the element in X without its
/// padding, as if X were row-major in one dimension. This is MaxPool of ONNX with two results and
/// `storage_order` 0. Within planes, each image and channel has indices of its own from 0 on, as in
/// PyTorch. Of several maxima, the first one in row-major order has the index. A NaN is larger than
/// every number. A window without elements has the maximum of a `pool`, and the index -1.
///
/// The inverse, MaxUnpool of ONNX and PyTorch, is a `scatter_elements` of the maxima to zeros, both
/// reshaped to one dimension, or to one for the planes and one for the indices within them.
///
/// Types: f16, bf16, f32, f64, i8 and u8. Elements are copied bit by bit. X and the results have
/// any strides and share no bytes. Results that are not given are new row-major tensors. The answer
/// is `tensors`: y, indices.
struct max_pool_with_indices {
  operand x{};                ///< X, of the shape (N, C, D1 … Dk), k from 1 to 3
  extents window{};           ///< elements of a window along each dimension, at least 1
  extents strides{};          ///< between windows, at least 1; 1 if not given
  extents before{};           ///< padding before X, at most the reach; 0 if not given
  extents after{};            ///< padding after X, at most the reach; 0 if not given
  extents dilation{};         ///< between elements of a window, at least 1; 1 if not given
  bool ceil_mode = false;     ///< whether a last window may reach beyond the padding
  bool within_plane = false;  ///< whether an index counts from the plane of its image and channel
  operand y{};                ///< the maxima, of the type of X
  operand indices{};          ///< of type i64 and the shape of Y

  /// All members, in order.
  template <class = void>
  static constexpr auto members() {
    using operation = max_pool_with_indices;
    return std::make_tuple(
        input("x", &operation::x), parameter("window", &operation::window),
        parameter("strides", &operation::strides), parameter("before", &operation::before),
        parameter("after", &operation::after), parameter("dilation", &operation::dilation),
        parameter("ceil_mode", &operation::ceil_mode),
        parameter("within_plane", &operation::within_plane), output("y", &operation::y),
        output("indices", &operation::indices));
  }
};

/// The functions behind the operation.
[[nodiscard]] SLUICE_EXPORT const operation_descriptor& descriptor_of(
    operation_type<max_pool_with_indices>);

}  // namespace sluice
