// SPDX-License-Identifier: Apache-2.0
#include "operations/core/enumerators.hpp"
#include "operations/cuda_build.hpp"
#include "operations/dnn/pool_functions.hpp"
#include "operations/elementwise/layouts.hpp"

#include <sluice/operations/pool.hpp>

#include <algorithm>
#include <array>
#include <string>
#include <string_view>
#include <utility>

namespace sluice {
namespace {

using operations::pool_axis;
using operations::pooling_call;

const tensor_spec& require_x(const pool& op, const inference& inference) {
  const auto& x = inference.require(op.x);
  const bool is_small_integer = x.type == element_type::i8 || x.type == element_type::u8;
  if (!operations::is_floating_point(x.type) &&
      !(is_small_integer && op.kind == pooling::maximum)) {
    throw inference.refusal(op.x, "is of type ", x.type,
                            ", but pools take f16, bf16, f32 and f64, and maxima also i8 and u8");
  }
  if (x.rank() != op.window.size() + 2) {
    throw inference.refusal(op.x, "has the shape ", x.shape, ", but a window of ",
                            std::to_string(op.window.size()), " dimensions needs ",
                            std::to_string(op.window.size() + 2));
  }
  return x;
}

/// Number `i` of a list, or `otherwise` if the list is not given.
std::int64_t pool_number(std::string_view name, const extents& list, std::size_t i,
                         std::int64_t least, std::int64_t otherwise) {
  if (list.empty()) return otherwise;
  if (list[i] >= least) return list[i];
  throw invalid_argument(name, "is " + to_string(list) + ", but its numbers must be at least " +
                                   std::to_string(least));
}
void require_list(std::string_view name, const extents& list, std::size_t size) {
  if (list.empty() || list.size() == size) return;
  throw invalid_argument(
      name, "is " + to_string(list) + ", but window has " + std::to_string(size) + " numbers");
}

/// The axis `i`, without its strides.
pool_axis pool_axis_of(const pool& op, std::size_t i, std::int64_t extent) {
  pool_axis axis;
  axis.extent = extent;
  axis.window = pool_number("window", op.window, i, 1, 1);
  axis.step = pool_number("strides", op.strides, i, 1, 1);
  axis.dilation = pool_number("dilation", op.dilation, i, 1, 1);
  axis.before = pool_number("before", op.before, i, 0, 0);
  axis.after = pool_number("after", op.after, i, 0, 0);
  std::int64_t reach = 0;
  std::int64_t padded = 0;
  if (__builtin_mul_overflow(axis.window - 1, axis.dilation, &reach)) {
    throw invalid_argument("window",
                           "is " + to_string(op.window) + ", which overflows with its dilation");
  }
  for (const auto& [name, padding] : {std::pair{"before", axis.before}, {"after", axis.after}}) {
    if (padding <= reach) continue;
    throw invalid_argument(name, "is " + std::to_string(padding) +
                                     " along a dimension, but padding must be less than a window, "
                                     "which reaches over " +
                                     std::to_string(reach) + " + 1");
  }
  if (__builtin_add_overflow(axis.before, axis.after, &padded) ||
      __builtin_add_overflow(padded, extent, &padded)) {
    throw invalid_argument("after", "is " + to_string(op.after) + ", which overflows x");
  }
  if (reach >= padded) {
    throw invalid_argument("window", "reaches over " + std::to_string(reach) +
                                         " + 1 elements, but the padded x has only " +
                                         std::to_string(padded));
  }
  const auto range = padded - reach - 1;  // of the positions where windows may begin
  axis.outputs = range / axis.step + 1;
  if (op.ceil_mode && range % axis.step != 0 &&
      axis.outputs <= (extent + axis.before - 1) / axis.step) {
    ++axis.outputs;
  }
  // So that no position overflows.
  if (axis.outputs == 1) axis.step = 1;
  if (axis.window == 1) axis.dilation = 1;
  return axis;
}

pooling_call infer(const pool& op, inference& inference) {
  operations::require_enumerator("kind", op.kind, pooling::lp);
  if (op.window.empty() || op.window.size() > operations::pool_call::max_axes) {
    throw invalid_argument("window", "is " + to_string(op.window) +
                                         ", but must have 1 to 3 numbers; reduce takes all of the "
                                         "elements along a dimension");
  }
  const auto dimensions = op.window.size();
  for (const auto& [name, list] : {std::pair{"strides", &op.strides},
                                   {"before", &op.before},
                                   {"after", &op.after},
                                   {"dilation", &op.dilation}}) {
    require_list(name, *list, dimensions);
  }
  if (op.count_padding && op.kind != pooling::average) {
    throw invalid_argument("count_padding", "is true, but only averages have it");
  }
  if (op.p < 1 || (op.p != 2 && op.kind != pooling::lp)) {
    throw invalid_argument(
        "p", "is " + std::to_string(op.p) + ", but must be 2, or at least 1 for the norm lp");
  }
  const auto& x = require_x(op, inference);
  std::array<pool_axis, operations::pool_call::max_axes> axes;
  extents y_shape{x.shape[0], x.shape[1]};
  for (std::size_t i = 0; i < dimensions; ++i) {
    if (x.shape[i + 2] == 0) {
      throw inference.refusal(op.x, "has the shape ", x.shape, ", so windows have no elements");
    }
    axes[i] = pool_axis_of(op, i, x.shape[i + 2]);
    y_shape.push_back(axes[i].outputs);
  }
  const auto& y = inference.result(op.y, x.type, y_shape, operations::memory_order(x));
  if (y.size() == 0) return pooling_call::without_results(inference);
  pooling_call call;
  call.type = operations::storage_of(x.type);
  call.kind = static_cast<operations::window_kind>(op.kind);
  call.p = op.p;
  call.counts_padding = op.count_padding;
  for (std::size_t i = 0; i < dimensions; ++i) {
    axes[i].x_stride = x.strides[i + 2];
    axes[i].y_stride = y.strides[i + 2];
  }
  // The nearest elements last, and axes of one element first.
  const auto is_outside = [](const pool_axis& a, const pool_axis& b) {
    const bool a_is_one = a.extent == 1 && a.outputs == 1;
    const bool b_is_one = b.extent == 1 && b.outputs == 1;
    return a_is_one != b_is_one ? a_is_one : a.x_stride > b.x_stride;
  };
  std::sort(axes.begin(), axes.begin() + static_cast<std::ptrdiff_t>(dimensions), is_outside);
  for (auto& axis : axes) {
    // The stride along one element may be any number.
    if (axis.extent == 1) axis.x_stride = 0;
    if (axis.outputs == 1) axis.y_stride = 0;
  }
  std::copy_n(axes.begin(), dimensions, call.axes + (call.max_axes - dimensions));
  auto& outer = call.planes[0];
  auto& inner = call.planes[1];
  outer = {x.shape[0], x.strides[0], y.strides[0]};
  inner = {x.shape[1], x.strides[1], y.strides[1]};
  if (inner.count == 1 || (outer.count > 1 && outer.x_stride < inner.x_stride)) {
    std::swap(outer, inner);
  }
  if (outer.x_stride == inner.count * inner.x_stride &&
      outer.y_stride == inner.count * inner.y_stride) {
    inner.count *= std::exchange(outer.count, 1);
  }
  return call;
}

void compute(const pooling_call& call, const launch_of<pool>& launch) {
  if (!call.has_results()) return;
  host::compute_pool(call, launch.get<const void>(&pool::x), launch.get<void>(&pool::y));
}
void enqueue(lane_libraries& libraries, const pooling_call& call, const launch_of<pool>& launch) {
  if (!call.has_results()) return;
  cuda::enqueue_pool(libraries, call, launch.get<const void>(&pool::x), launch.get<void>(&pool::y));
}

}  // namespace

const operation_descriptor& descriptor_of(operation_type<pool>) {
  static const typed_operation_descriptor<pool, pooling_call> descriptor(
      {.name = "pool",
       .infer = infer,
       .host = {.library = "sluice"},
       .compute = compute,
       .cuda = {.library = "sluice", .prepare = operations::with_cuda<cuda::prepare_pool>()},
       .enqueue = operations::with_cuda<enqueue>(),
       .can_be_captured = true});
  return descriptor;
}

}  // namespace sluice
