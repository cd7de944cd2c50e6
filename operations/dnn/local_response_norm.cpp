// SPDX-License-Identifier: Apache-2.0
#include "operations/cuda_build.hpp"
#include "operations/dnn/pool_functions.hpp"
#include "operations/elementwise/element_sets.hpp"
#include "operations/elementwise/layouts.hpp"

#include <sluice/operations/local_response_norm.hpp>

#include <array>
#include <cmath>
#include <cstddef>
#include <string>
#include <string_view>

namespace sluice {
namespace {

using operations::pooling_call;

/// A number in the type of the computation.
double require_finite(std::string_view name, double value, element_type type) {
  const double number =
      type == element_type::f64 ? value : static_cast<double>(static_cast<float>(value));
  if (std::isfinite(number)) return number;
  throw invalid_argument(name, "is " + std::to_string(value) + ", but must be a finite number");
}

/// The dimensions beside the channels: at most four.
operations::strided_dimensions other_dimensions(const tensor_spec& y, const tensor_spec& x) {
  extents shape;
  std::array<extents, 2> strides;
  for (std::size_t d = 0; d < x.rank(); ++d) {
    if (d == 1) continue;
    shape.push_back(x.shape[d]);
    strides[0].push_back(y.strides[d]);
    strides[1].push_back(x.strides[d]);
  }
  return operations::merged(shape, strides.data(), strides.size());
}

pooling_call infer_response(const local_response_norm& op, inference& inference) {
  const auto& x = inference.require(op.x);
  operations::require_element(inference, op.x, x.type, operations::element_set::real,
                              "local_response_norm");
  if (x.rank() < 2) {
    throw inference.refusal(op.x, "has the shape ", x.shape, ", but must have channels");
  }
  if (op.size < 1) {
    throw invalid_argument("size", "is " + std::to_string(op.size) + ", but must be at least 1");
  }
  inference.couple(op.x, 1);
  pooling_call call;
  call.kind = operations::window_kind::response;
  call.alpha = require_finite("alpha", op.alpha, x.type) / static_cast<double>(op.size);
  call.beta = require_finite("beta", op.beta, x.type);
  call.bias = require_finite("bias", op.bias, x.type);
  const auto& y = inference.result(op.y, x.type, x.shape, operations::memory_order(x));
  if (y.size() == 0) return pooling_call::without_results(inference);
  call.type = operations::storage_of(x.type);
  auto others = other_dimensions(y, x);
  constexpr std::size_t most_others = 4;
  if (others.rank > most_others) {
    inference.make_contiguous(op.x, op.y);
    others = other_dimensions(y, x);
  }
  // The nearest elements are planes; along the others, windows have one tap.
  auto& channels = call.axes[2];
  channels.extent = channels.outputs = x.shape[1];
  channels.window = op.size;
  channels.before = (op.size - 1) / 2;
  channels.after = op.size - 1 - channels.before;
  channels.x_stride = x.shape[1] > 1 ? x.strides[1] : 0;
  channels.y_stride = x.shape[1] > 1 ? y.strides[1] : 0;
  for (std::size_t i = 0; i < others.rank; ++i) {
    const auto d = others.rank - 1 - i;
    const auto y_stride = others.strides[0][d];
    const auto x_stride = others.strides[1][d];
    if (i < 2) {
      call.planes[1 - i] = {others.shape[d], x_stride, y_stride};
    } else {
      auto& axis = call.axes[3 - i];
      axis.extent = axis.outputs = others.shape[d];
      axis.x_stride = x_stride;
      axis.y_stride = y_stride;
    }
  }
  return call;
}

void compute_response(const pooling_call& call, const launch_of<local_response_norm>& launch) {
  if (!call.has_results()) return;
  host::compute_pool(call, launch.get<const void>(&local_response_norm::x),
                     launch.get<void>(&local_response_norm::y));
}
void enqueue_response(lane_libraries& libraries, const pooling_call& call,
                      const launch_of<local_response_norm>& launch) {
  if (!call.has_results()) return;
  cuda::enqueue_pool(libraries, call, launch.get<const void>(&local_response_norm::x),
                     launch.get<void>(&local_response_norm::y));
}

}  // namespace

const operation_descriptor& descriptor_of(operation_type<local_response_norm>) {
  static const typed_operation_descriptor<local_response_norm, pooling_call> descriptor(
      {.name = "local_response_norm",
       .infer = infer_response,
       .host = {.library = "sluice"},
       .compute = compute_response,
       .cuda = {.library = "sluice", .prepare = operations::with_cuda<cuda::prepare_pool>()},
       .enqueue = operations::with_cuda<enqueue_response>(),
       .can_be_captured = true});
  return descriptor;
}

}  // namespace sluice
