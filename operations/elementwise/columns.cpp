// SPDX-License-Identifier: Apache-2.0
#include "operations/elementwise/layouts.hpp"
#include "operations/elementwise/map_functions.hpp"
#include "operations/elementwise/rearrange_call.hpp"

#include <sluice/operations/rearrangement.hpp>

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>

namespace sluice {
namespace {

using operations::col2im_call;
using operations::column_axis;
using operations::im2col_call;

/// Rows and columns of images.
using column_axes = std::array<column_axis, 2>;

/// Number `i` of a list, or `otherwise` if the list is not given.
std::int64_t column_number(std::string_view name, const extents& list, std::size_t i,
                           std::int64_t least, std::int64_t otherwise) {
  if (list.empty() && name != "window" && name != "size") return otherwise;
  if (list.size() != 2) {
    throw invalid_argument(name, "is " + to_string(list) + ", but must have 2 numbers");
  }
  if (list[i] >= least) return list[i];
  throw invalid_argument(name, "is " + to_string(list) + ", but its numbers must be at least " +
                                   std::to_string(least));
}

/// The windows over rows (0) or columns (1) of images.
template <class Operation>
column_axis axis_of_columns(const Operation& op, std::size_t i, std::int64_t extent) {
  column_axis axis;
  axis.extent = extent;
  axis.taps = column_number("window", op.window, i, 1, 1);
  axis.step = column_number("strides", op.strides, i, 1, 1);
  axis.before = column_number("before", op.before, i, 0, 0);
  const auto after = column_number("after", op.after, i, 0, 0);
  axis.dilation = column_number("dilation", op.dilation, i, 1, 1);
  std::int64_t reach = 0;
  std::int64_t padded = 0;
  if (__builtin_mul_overflow(axis.taps - 1, axis.dilation, &reach)) {
    throw invalid_argument("window",
                           "is " + to_string(op.window) + ", which overflows with its dilation");
  }
  if (__builtin_add_overflow(axis.before, after, &padded) ||
      __builtin_add_overflow(padded, extent, &padded)) {
    throw invalid_argument("after", "is " + to_string(op.after) + ", which overflows the images");
  }
  if (reach >= padded) {
    const std::string adjective = i == 0 ? " high" : " wide";
    throw invalid_argument("window", "is " + std::to_string(static_cast<std::uint64_t>(reach) + 1) +
                                         adjective + (axis.dilation == 1 ? "" : " when dilated") +
                                         ", but the padded images are " + std::to_string(padded) +
                                         adjective);
  }
  axis.windows = (padded - reach - 1) / axis.step + 1;
  // So that no position overflows.
  if (axis.windows == 1) axis.step = padded;
  if (axis.taps == 1) axis.dilation = 1;
  return axis;
}
template <class Operation>
column_axes axes_of_columns(const Operation& op, std::int64_t rows, std::int64_t columns) {
  return {axis_of_columns(op, 0, rows), axis_of_columns(op, 1, columns)};
}

/// The shape of the matrices with the windows of `channels` channels.
extents columns_shape(std::int64_t images, std::int64_t channels, const extents& window,
                      const column_axes& axes) {
  extents shape{images, channels, 0};
  if (__builtin_mul_overflow(shape[1], axes[0].taps, &shape[1]) ||
      __builtin_mul_overflow(shape[1], axes[1].taps, &shape[1])) {
    throw invalid_argument("window", "is " + to_string(window) + ", which overflows with " +
                                         std::to_string(channels) + " channels");
  }
  if (__builtin_mul_overflow(axes[0].windows, axes[1].windows, &shape[2])) {
    throw invalid_argument("after", "makes more windows than there are numbers");
  }
  return shape;
}

im2col_call infer_im2col(const im2col& op, inference& inference) {
  const auto& x = inference.require(op.x);
  if (x.rank() != 4) {
    throw inference.refusal(op.x, "has the shape ", x.shape, ", but must have 4 dimensions");
  }
  inference.couple_from(op.x, 2);
  const auto axes = axes_of_columns(op, x.shape[2], x.shape[3]);
  const auto& [rows, columns] = axes;
  const auto& y =
      inference.result(op.y, x.type, columns_shape(x.shape[0], x.shape[1], op.window, axes));
  if (y.size() == 0) return {};
  const auto step = y.strides[1];
  const auto window_step = y.strides[2];
  // Images, channels, taps and windows.
  im2col_call call{operations::make_layout<4>(
      {x.shape[0], x.shape[1], rows.taps, columns.taps, rows.windows, columns.windows},
      {extents{y.strides[0], step * rows.taps * columns.taps, step * columns.taps, step,
               window_step * columns.windows, window_step},
       extents{x.strides[0], x.strides[1], 0, 0, 0, 0},
       extents{0, 0, rows.dilation, 0, rows.step, 0},
       extents{0, 0, 0, columns.dilation, 0, columns.step}},
      {x.type, x.type, x.type, x.type})};
  for (std::size_t i = 0; i < axes.size(); ++i) {
    call.axes[i] = axes[i];
    call.x_strides[i] = x.strides[i + 2];
  }
  return call;
}

col2im_call infer_col2im(const col2im& op, inference& inference) {
  const auto& x = inference.require(op.x);
  operations::require_arithmetic(inference, op.x, x.type);
  if (x.type == element_type::boolean) {
    throw inference.refusal(op.x, "is of type ", x.type, "; cast converts");
  }
  const auto height = column_number("size", op.size, 0, 1, 1);
  const auto width = column_number("size", op.size, 1, 1, 1);
  const auto axes = axes_of_columns(op, height, width);
  const auto model = columns_shape(1, 1, op.window, axes);
  if (x.rank() != 3 || x.shape[1] % model[1] != 0 || x.shape[2] != model[2]) {
    throw inference.refusal(op.x, "has the shape ", x.shape, ", but must be (N, C · ", model[1],
                            ", ", model[2], ")");
  }
  inference.couple(op.x, 2);
  const auto channels = x.shape[1] / model[1];
  const auto& y = inference.result(op.y, x.type, {x.shape[0], channels, height, width});
  if (y.size() == 0) return {};
  col2im_call call{operations::make_layout<4>(
      y.shape,
      {y.strides, extents{x.strides[0], channels == 1 ? 0 : x.strides[1] * model[1], 0, 0},
       extents{0, 0, 1, 0}, extents{0, 0, 0, 1}},
      {x.type, x.type, x.type, x.type})};
  for (std::size_t i = 0; i < axes.size(); ++i) call.axes[i] = axes[i];
  call.tap_stride = x.strides[1];
  call.window_stride = x.strides[2];
  return call;
}

}  // namespace

const operation_descriptor& descriptor_of(operation_type<im2col>) {
  return operations::descriptor_of_map<im2col, im2col_call, infer_im2col, &im2col::x>("im2col");
}
const operation_descriptor& descriptor_of(operation_type<col2im>) {
  return operations::descriptor_of_map<col2im, col2im_call, infer_col2im, &col2im::x>("col2im");
}

}  // namespace sluice
