// SPDX-License-Identifier: Apache-2.0
#include "operations/core/counted.hpp"
#include "operations/core/enumerators.hpp"
#include "operations/cuda_build.hpp"
#include "operations/dnn/pool_functions.hpp"
#include "operations/dnn/pool_windows.hpp"
#include "operations/elementwise/layouts.hpp"

#include <sluice/operations/pool.hpp>

#include <algorithm>
#include <string>
#include <string_view>
#include <utility>

namespace sluice {
namespace {

using operations::pool_axes;
using operations::pool_axis;
using operations::pooling_call;

void require_kind(pooling kind, std::int64_t p) {
  operations::require_enumerator("kind", kind, pooling::lp);
  if (p < 1 || (p != 2 && kind != pooling::lp)) {
    throw invalid_argument(
        "p", "is " + std::to_string(p) + ", but must be 2, or at least 1 for the norm lp");
  }
}
/// A list with a number for each spatial dimension.
void require_dimensions(std::string_view name, const extents& list) {
  if (!list.empty() && list.size() <= operations::pool_call::max_axes) return;
  const auto description =
      list.empty() ? "is not given" : "is " + to_string(list) + ", but must have 1 to 3 numbers";
  throw invalid_argument(name,
                         description + "; reduce takes all of the elements along a dimension");
}
/// X of a pool of windows that the list `name` describes.
const tensor_spec& require_x(const inference& inference, const operand& operand, pooling kind,
                             std::string_view name, const extents& list) {
  const auto& x = inference.require(operand);
  const bool is_small_integer = x.type == element_type::i8 || x.type == element_type::u8;
  if (!operations::is_floating_point(x.type) && !(is_small_integer && kind == pooling::maximum)) {
    throw inference.refusal(operand, "is of type ", x.type,
                            ", but pools take f16, bf16, f32 and f64, and maxima also i8 and u8");
  }
  if (x.rank() < 3) {
    throw inference.refusal(operand, "has the shape ", x.shape,
                            ", but must be a batch of images (N, C, D1 … Dk) with k from 1 to 3");
  }
  if (x.rank() != list.size() + 2) {
    throw invalid_argument(name, "has " + operations::counted(list.size(), "number") + ", but " +
                                     std::string(inference.name(operand)) + " of shape " +
                                     to_string(x.shape) + " has " +
                                     operations::counted(x.rank() - 2, "spatial dimension"));
  }
  for (std::size_t d = 2; d < x.rank(); ++d) {
    if (x.shape[d] > 0) continue;
    throw inference.refusal(operand, "has the shape ", x.shape, ", so windows have no elements");
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
      name, "is " + to_string(list) + ", but window has " + operations::counted(size, "number"));
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
  const auto size = [&] {
    return "takes " + std::to_string(static_cast<std::uint64_t>(reach) + 1) + " elements";
  };
  const auto place = [&] {
    return " along dimension " + std::to_string(i + 2) + " of x";
  };
  const char* const dilated = axis.dilation == 1 ? "" : " when dilated";
  for (const auto& [name, padding] : {std::pair{"before", axis.before}, {"after", axis.after}}) {
    if (padding <= reach) continue;
    throw invalid_argument(name, "is " + std::to_string(padding) + place() +
                                     ", but padding must be less than the window, which " + size() +
                                     dilated);
  }
  if (__builtin_add_overflow(axis.before, axis.after, &padded) ||
      __builtin_add_overflow(padded, extent, &padded)) {
    throw invalid_argument("after", "is " + to_string(op.after) + ", which overflows x");
  }
  if (reach >= padded) {
    throw invalid_argument(
        "window", size() + place() + dilated + ", but the padded x has " + std::to_string(padded));
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

/// The call for windows of a kind along `axes`.
pooling_call make_pool(inference& inference, const operand& x_operand, const operand& y_operand,
                       pooling kind, pool_axes axes) {
  const auto& x = inference.require(x_operand);
  extents y_shape{x.shape[0], x.shape[1]};
  for (std::size_t i = 0; i < axes.count; ++i) y_shape.push_back(axes.all[i].outputs);
  const auto& y = inference.result(y_operand, x.type, y_shape, operations::memory_order(x));
  if (y.size() == 0) return pooling_call::without_results(inference);
  pooling_call call;
  call.type = operations::storage_of(x.type);
  call.kind = static_cast<operations::window_kind>(kind);
  for (std::size_t i = 0; i < axes.count; ++i) {
    axes.all[i].x_stride = x.strides[i + 2];
    axes.all[i].y_stride = y.strides[i + 2];
  }
  // The nearest elements last, and axes of one element first.
  const auto is_outside = [](const pool_axis& a, const pool_axis& b) {
    const bool a_is_one = a.extent == 1 && a.outputs == 1;
    const bool b_is_one = b.extent == 1 && b.outputs == 1;
    return a_is_one != b_is_one ? a_is_one : a.x_stride > b.x_stride;
  };
  std::sort(axes.all.data(), axes.all.data() + axes.count, is_outside);
  for (auto& axis : axes.all) {
    // The stride along one element may be any number.
    if (axis.extent == 1) axis.x_stride = 0;
    if (axis.outputs == 1) axis.y_stride = 0;
  }
  std::copy_n(axes.all.data(), axes.count, call.axes + (call.max_axes - axes.count));
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

pooling_call infer_pool(const pool& op, inference& inference) {
  const auto axes = operations::pool_windows(op, inference, op.x);
  inference.couple_from(op.x, 2);
  auto call = make_pool(inference, op.x, op.y, op.kind, axes);
  call.p = op.p;
  call.counts_padding = op.count_padding;
  return call;
}

pooling_call infer_adaptive(const adaptive_pool& op, inference& inference) {
  require_kind(op.kind, op.p);
  require_dimensions("size", op.size);
  const auto& x = require_x(inference, op.x, op.kind, "size", op.size);
  inference.couple_from(op.x, 2);
  pool_axes axes{.count = op.size.size()};
  for (std::size_t i = 0; i < axes.count; ++i) {
    auto& axis = axes.all[i];
    axis.extent = x.shape[i + 2];
    axis.outputs = pool_number("size", op.size, i, 1, 1);
    std::int64_t product = 0;
    if (__builtin_mul_overflow(axis.extent, axis.outputs, &product)) {
      throw invalid_argument("size", "is " + to_string(op.size) + ", which overflows with x");
    }
    if (axis.extent % axis.outputs == 0) {
      axis.window = axis.step = axis.extent / axis.outputs;
    } else {
      axis.window = axis.extent / axis.outputs + 2;  // at most
      axis.step = pool_axis::adaptive;
    }
    if (axis.outputs == 1) axis.step = 1;
  }
  auto call = make_pool(inference, op.x, op.y, op.kind, axes);
  call.p = op.p;
  return call;
}

template <class Operation>
void compute_pooling(const pooling_call& call, const launch_of<Operation>& launch) {
  if (!call.has_results()) return;
  host::compute_pool(call, launch.template get<const void>(&Operation::x),
                     launch.template get<void>(&Operation::y));
}
template <class Operation>
void enqueue_pooling(lane_libraries& libraries, const pooling_call& call,
                     const launch_of<Operation>& launch) {
  if (!call.has_results()) return;
  cuda::enqueue_pool(libraries, call, launch.template get<const void>(&Operation::x),
                     launch.template get<void>(&Operation::y));
}
template <class Operation, auto Infer>
const operation_descriptor& describe_pooling(std::string_view name) {
  static const typed_operation_descriptor<Operation, pooling_call> descriptor(
      {.name = name,
       .infer = Infer,
       .host = {.library = "sluice"},
       .compute = compute_pooling<Operation>,
       .cuda = {.library = "sluice", .prepare = operations::with_cuda<cuda::prepare_pool>()},
       .enqueue = operations::with_cuda<enqueue_pooling<Operation>>(),
       .can_be_captured = true});
  return descriptor;
}

}  // namespace

operations::pool_axes operations::pool_windows(const pool& op, const inference& inference,
                                               const operand& x_operand) {
  require_kind(op.kind, op.p);
  require_dimensions("window", op.window);
  for (const auto& [name, list] : {std::pair{"strides", &op.strides},
                                   {"before", &op.before},
                                   {"after", &op.after},
                                   {"dilation", &op.dilation}}) {
    require_list(name, *list, op.window.size());
  }
  if (op.count_padding && op.kind != pooling::average) {
    throw invalid_argument("count_padding", "is true, but only averages have it");
  }
  const auto& x = require_x(inference, x_operand, op.kind, "window", op.window);
  pool_axes axes{.count = op.window.size()};
  std::int64_t elements = 1;  // of a window
  for (std::size_t i = 0; i < axes.count; ++i) {
    axes.all[i] = pool_axis_of(op, i, x.shape[i + 2]);
    if (__builtin_mul_overflow(elements, axes.all[i].window, &elements)) {
      throw invalid_argument("window", "is " + to_string(op.window) + ", which overflows");
    }
  }
  return axes;
}

const operation_descriptor& descriptor_of(operation_type<pool>) {
  return describe_pooling<pool, infer_pool>("pool");
}
const operation_descriptor& descriptor_of(operation_type<adaptive_pool>) {
  return describe_pooling<adaptive_pool, infer_adaptive>("adaptive_pool");
}

}  // namespace sluice
