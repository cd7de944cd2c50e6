// SPDX-License-Identifier: Apache-2.0
#include "operations/cuda_build.hpp"
#include "operations/dnn/convolution_lists.hpp"
#include "operations/dnn/integer_convolution_functions.hpp"
#include "operations/elementwise/layouts.hpp"

#include <sluice/operations/convolution.hpp>

#include <cstddef>
#include <string>

namespace sluice {
namespace {

using operations::integer_addresses;
using operations::integer_convolution_call;

const tensor_spec& require_bytes(const inference& inference, const operand& operand) {
  const auto& s = inference.require(operand);
  if (s.type == element_type::u8 || s.type == element_type::i8) return s;
  throw inference.refusal(operand, "is of type ", s.type,
                          ", but integer_convolution takes u8 and i8");
}

/// The distance between the zero points of neighbouring channels of Y.
/// @param most the most zero points
std::int64_t zero_stride(const inference& inference, const operand& operand, const tensor_spec& s,
                         std::string_view name, std::int64_t most) {
  const auto* const zero = inference.given(operand);
  if (zero == nullptr) return 0;
  operations::require_same_type(inference, operand, *zero, s.type, name);
  if (zero->size() == 1 && zero->rank() <= 1) return 0;
  if (zero->rank() == 1 && zero->shape[0] == most) return zero->strides[0];
  throw inference.refusal(operand, "has the shape ", zero->shape, ", but must be one number",
                          most == 1 ? "" : " or one for each filter");
}

void set_axis(operations::element_axis& axis, std::size_t i, std::size_t d,
              const operations::convolution_geometry& g, const tensor_spec& x, const tensor_spec& w,
              const tensor_spec& y) {
  axis = {x.shape[d],
          y.shape[d],
          w.shape[d],
          g.before[i],
          y.shape[d] > 1 ? g.stride[i] : 0,
          w.shape[d] > 1 ? g.dilation[i] : 0,
          x.strides[d],
          w.strides[d],
          y.strides[d]};
}

integer_convolution_call infer(const integer_convolution& op, inference& inference) {
  const auto& x = require_bytes(inference, op.x);
  const auto& w = require_bytes(inference, op.w);
  const auto g = operations::geometry_of(op, x.rank());
  const auto shape = convolution_result(x.shape, w.shape, g);
  inference.couple_from(op.x, 1);
  inference.couple_from(op.w, g.groups == 1 ? 1 : 0);
  (void)zero_stride(inference, op.x_zero_point, x, "x", 1);
  const auto w_zero_stride = zero_stride(inference, op.w_zero_point, w, "w", shape[1]);
  for (const auto* zero : {&op.x_zero_point, &op.w_zero_point}) {
    const auto* const spec = inference.given(*zero);
    if (spec != nullptr && spec->rank() == 1) inference.couple(*zero, 0);
  }
  const auto& y = inference.result(op.y, element_type::i32, shape, operations::memory_order(x));
  integer_convolution_call call;
  if (y.size() == 0) {
    for (const auto& u : inference.uses()) inference.ignore(*u.operand.value);
    return call;
  }
  auto& sums = call.sums;
  for (std::size_t d = 2; d < x.rank(); ++d) {
    const auto i = g.first_axis() + d - 2;
    set_axis(sums.axes[i], i, d, g, x, w, y);
  }
  sums.x = {x.strides[0], x.strides[1]};
  sums.y = {y.strides[0], y.strides[1]};
  sums.y_filter = w.strides[0];
  sums.x_filter = w.strides[1];
  sums.images = shape[0];
  sums.y_channels = shape[1];
  sums.group_inputs = w.shape[1];
  sums.group_outputs = shape[1] / g.groups;
  sums.w_group = sums.group_outputs * w.strides[0];
  sums.is_channels_last = shape[1] > 1 && y.strides[1] < y.strides[x.rank() - 1];
  sums.type = operations::storage_of(x.type);
  call.w_type = operations::storage_of(w.type);
  call.w_zero_stride = w_zero_stride;
  return call;
}

integer_addresses addresses_of(const launch_of<integer_convolution>& launch) {
  using self = integer_convolution;
  return {launch.get<const void>(&self::x), launch.get<const void>(&self::w),
          launch.get<const void>(&self::x_zero_point), launch.get<const void>(&self::w_zero_point),
          launch.get<void>(&self::y)};
}
void compute(const integer_convolution_call& call, const launch_of<integer_convolution>& launch) {
  if (call.sums.count() != 0) host::compute_integer_convolution(call, addresses_of(launch));
}
void enqueue(lane_libraries& libraries, const integer_convolution_call& call,
             const launch_of<integer_convolution>& launch) {
  if (call.sums.count() == 0) return;
  cuda::enqueue_integer_convolution(libraries, call, addresses_of(launch));
}

}  // namespace

const operation_descriptor& descriptor_of(operation_type<integer_convolution>) {
  static const typed_operation_descriptor<integer_convolution, integer_convolution_call> descriptor(
      {.name = "integer_convolution",
       .infer = infer,
       .host = {.library = "sluice"},
       .compute = compute,
       .cuda = {.library = "sluice",
                .prepare = operations::with_cuda<cuda::prepare_integer_convolution>()},
       .enqueue = operations::with_cuda<enqueue>(),
       .can_be_captured = true});
  return descriptor;
}

}  // namespace sluice
