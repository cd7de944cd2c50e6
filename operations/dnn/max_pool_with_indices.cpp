// SPDX-License-Identifier: Apache-2.0
#include "operations/cuda_build.hpp"
#include "operations/dnn/indexed_pool_functions.hpp"
#include "operations/dnn/pool_windows.hpp"
#include "operations/elementwise/layouts.hpp"

#include <sluice/operations/max_pool_with_indices.hpp>

#include <cstddef>
#include <cstdint>

namespace sluice {
namespace {

using operations::indexed_pool_call;

/// The call, as traces see it.
struct indexed_pool_launch : indexed_pool_call {
  [[nodiscard]] launch_facts facts() const noexcept {
    // About four taps are computed in the time of one element.
    return {.sizes = {count, channels}, .work = static_cast<double>(count) * most_taps(*this) / 4};
  }
};

indexed_pool_launch infer_indexed_pool(const max_pool_with_indices& op, inference& inference) {
  const pool parameters{.window = op.window,
                        .strides = op.strides,
                        .before = op.before,
                        .after = op.after,
                        .dilation = op.dilation,
                        .ceil_mode = op.ceil_mode};
  const auto axes = operations::pool_windows(parameters, inference, op.x);
  const auto& x = inference.require(op.x);
  inference.couple_from(op.x, op.within_plane ? 2 : 0);
  extents shape{x.shape[0], x.shape[1]};
  for (std::size_t i = 0; i < axes.count; ++i) shape.push_back(axes.all[i].outputs);
  const auto& y = inference.result(op.y, x.type, shape);
  (void)inference.result(op.indices, element_type::i64, shape);
  indexed_pool_launch call;
  if (y.size() == 0) {
    for (const auto& u : inference.uses()) inference.ignore(*u.operand.value);
    return call;
  }
  inference.make_contiguous(op.y, op.indices);
  call.count = static_cast<std::int64_t>(y.size());
  call.channels = x.shape[1];
  call.image_stride = x.strides[0];
  call.channel_stride = x.strides[1];
  call.type = operations::storage_of(x.type);
  call.within_plane = op.within_plane;
  const auto missing = std::size(call.axes) - axes.count;
  for (std::size_t i = 0; i < axes.count; ++i) {
    call.axes[missing + i] = axes.all[i];
    call.axes[missing + i].x_stride = x.strides[i + 2];
  }
  return call;
}

operations::indexed_pool_addresses pool_addresses(const launch_of<max_pool_with_indices>& launch) {
  return {launch.get<const void>(&max_pool_with_indices::x),
          launch.get<void>(&max_pool_with_indices::y),
          launch.get<std::int64_t>(&max_pool_with_indices::indices)};
}
void compute_windows(const indexed_pool_launch& call,
                     const launch_of<max_pool_with_indices>& launch) {
  if (call.count != 0) host::compute_indexed_pool(call, pool_addresses(launch));
}
void enqueue_windows(lane_libraries& libraries, const indexed_pool_launch& call,
                     const launch_of<max_pool_with_indices>& launch) {
  if (call.count != 0) cuda::enqueue_indexed_pool(libraries, call, pool_addresses(launch));
}

}  // namespace

const operation_descriptor& descriptor_of(operation_type<max_pool_with_indices>) {
  static const typed_operation_descriptor<max_pool_with_indices, indexed_pool_launch> descriptor(
      {.name = "max_pool_with_indices",
       .infer = infer_indexed_pool,
       .host = {.library = "sluice"},
       .compute = compute_windows,
       .cuda = {.library = "sluice",
                .prepare = operations::with_cuda<cuda::prepare_indexed_pool>()},
       .enqueue = operations::with_cuda<enqueue_windows>(),
       .can_be_captured = true});
  return descriptor;
}

}  // namespace sluice
