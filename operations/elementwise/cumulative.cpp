// SPDX-License-Identifier: Apache-2.0
#include "operations/core/enumerators.hpp"
#include "operations/cuda_build.hpp"
#include "operations/elementwise/cumulative_functions.hpp"
#include "operations/elementwise/layouts.hpp"
#include "operations/elementwise/workspace_plan.hpp"

#include <sluice/operations/cumulative.hpp>

#include <algorithm>
#include <bit>
#include <cstdlib>

namespace sluice {
namespace {

/// The call, as traces see it.
struct cumulative_launch : operations::cumulative_call {
  /// Two kernels beside the one of the plan.
  [[nodiscard]] launch_facts facts() const noexcept {
    return {.sizes = {rows.count, length}, .commands = 2};
  }
};

/// Chooses how many threads compute a row, from the shape and the strides alone, so that the result
/// of a GPU does not depend on its size. Neighbouring threads read neighbouring elements.
void distribute_rows(cumulative_launch& call) {
  constexpr std::int64_t wanted_threads = 1 << 18;
  constexpr std::int64_t least_elements = 1 << 16;
  constexpr std::int64_t items = 8;  // of a thread in a tile
  constexpr std::int64_t tile = 256 * items;
  constexpr std::int64_t least_of_thread = 64;
  const auto rows = call.rows.count;
  const bool rows_are_lines =
      rows == 1 || std::abs(call.strides[1]) <= operations::smallest_stride(call.rows, 1);
  if (rows_are_lines && call.length >= 1024) {
    call.lanes = 256;
  } else if (rows_are_lines) {
    const auto threads = std::min<std::int64_t>((call.length + items - 1) / items, 32);
    call.lanes = static_cast<std::int32_t>(std::bit_ceil(static_cast<std::uint64_t>(threads)));
  }
  call.part_length = call.length;
  // Short rows have one part, so that all groups of a warp take the same number of steps.
  if ((call.lanes > 1 && call.lanes <= 32) || call.length < least_elements / rows) return;
  const auto least_of_part = call.lanes == 1 ? least_of_thread : tile;
  const auto parts = std::min(wanted_threads / call.lanes / rows, call.length / least_of_part);
  if (parts < 2) return;
  call.part_length = (call.length + parts - 1) / parts;
  call.part_length = (call.part_length + least_of_part - 1) / least_of_part * least_of_part;
  call.parts = (call.length + call.part_length - 1) / call.part_length;
  const auto value_bytes = operations::visit(call, [](const auto& accumulated) {
    return static_cast<int>(sizeof(accumulated.identity()));
  });
  call.key.workspace_bytes = static_cast<std::int64_t>(
      std::bit_ceil(static_cast<std::uint64_t>(call.parts * rows * value_bytes)));
}

cumulative_launch infer_cumulative(const cumulative& op, inference& inference) {
  const auto& x = inference.require(op.x);
  operations::require_enumerator("kind", op.kind, cumulative_kind::product);
  operations::require_arithmetic(inference, op.x, x.type);
  if (x.type == element_type::boolean) {
    throw inference.refusal(op.x, "is of type ", x.type,
                            ", but cumulative takes all other types; cast converts");
  }
  const auto axis = operations::dimension_of("axis", op.axis, x.rank());
  inference.couple(op.x, axis);
  inference.allow_in_place(op.y, op.x);
  const auto& y = inference.result(op.y, x.type, x.shape);
  cumulative_launch call;
  call.is_product = op.kind == cumulative_kind::product;
  call.is_exclusive = op.exclusive;
  if (y.size() == 0) {
    inference.ignore(op.x);
    inference.ignore(op.y);
    return call;
  }
  extents shape;
  extents y_strides;
  extents x_strides;
  for (std::size_t d = 0; d < x.rank(); ++d) {
    if (d == axis) continue;
    shape.push_back(x.shape[d]);
    y_strides.push_back(y.strides[d]);
    x_strides.push_back(x.strides[d]);
  }
  call.rows = operations::make_layout<2>(shape, {y_strides, x_strides}, {x.type, x.type});
  call.length = x.shape[axis];
  call.strides[0] = y.strides[axis];
  call.strides[1] = x.strides[axis];
  if (op.reverse) {
    for (int k = 0; k < 2; ++k) {
      call.first[k] = (call.length - 1) * call.strides[k];
      call.strides[k] = -call.strides[k];
    }
  }
  distribute_rows(call);
  return call;
}

void compute_launch(const cumulative_launch& call, const launch_of<cumulative>& launch) {
  if (call.length == 0) return;
  host::compute_cumulative(call, launch.get<const void>(&cumulative::x),
                           launch.get<void>(&cumulative::y));
}
void enqueue_launch(lane_libraries& libraries, const cumulative_launch& call,
                    const launch_of<cumulative>& launch) {
  if (call.length == 0) return;
  cuda::enqueue_cumulative(libraries, call, launch.get<const void>(&cumulative::x),
                           launch.get<void>(&cumulative::y), launch.workspace());
}

}  // namespace

const operation_descriptor& descriptor_of(operation_type<cumulative>) {
  static const typed_operation_descriptor<cumulative, cumulative_launch> descriptor(
      {.name = "cumulative",
       .infer = infer_cumulative,
       .host = {.library = "sluice"},
       .compute = compute_launch,
       .cuda = {.library = "sluice",
                .prepare = operations::with_cuda<cuda::prepare_cumulative>(),
                .make_plan = operations::make_workspace_plan<cumulative_launch>},
       .enqueue = operations::with_cuda<enqueue_launch>(),
       .can_be_captured = true});
  return descriptor;
}

}  // namespace sluice
