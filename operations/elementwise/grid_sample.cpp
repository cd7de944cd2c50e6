// SPDX-License-Identifier: Apache-2.0
#include "operations/core/enumerators.hpp"
#include "operations/elementwise/grid_call.hpp"
#include "operations/elementwise/layouts.hpp"
#include "operations/elementwise/map_functions.hpp"

#include <sluice/operations/grid_sample.hpp>

#include <cstddef>
#include <string>

namespace sluice {
namespace {

using operations::grid_call;

/// Refuses an operand that holds no real numbers.
void require_real_type(const inference& inference, const operand& operand, const tensor_spec& s) {
  if (operations::is_floating_point(s.type)) return;
  throw inference.refusal(operand, "is of type ", s.type, ", but must be f16, bf16, f32 or f64");
}

/// The shape of y. Refuses operands whose shapes do not fit.
extents shape_of_samples(const grid_sample& op, inference& inference) {
  const auto& x = inference.require(op.x);
  const auto& grid = inference.require(op.grid);
  if (x.rank() < 3 || x.rank() > 2 + static_cast<std::size_t>(grid_call::max_axes)) {
    throw inference.refusal(op.x, "has the shape ", x.shape, ", but must have 3 to 5 dimensions");
  }
  extents shape{x.shape[0], x.shape[1]};
  for (std::size_t d = 2; d < x.rank(); ++d) {
    if (x.shape[d] > 0) continue;
    throw inference.refusal(op.x, "has the shape ", x.shape, ", so there is nothing to sample");
  }
  if (grid.rank() != x.rank() || grid.shape[0] != x.shape[0] ||
      grid.shape[grid.rank() - 1] != static_cast<std::int64_t>(x.rank()) - 2) {
    throw inference.refusal(op.grid, "has the shape ", grid.shape, ", which does not fit x of ",
                            x.shape);
  }
  for (std::size_t d = 1; d + 1 < grid.rank(); ++d) shape.push_back(grid.shape[d]);
  return shape;
}

grid_call infer_grid_sample(const grid_sample& op, inference& inference) {
  const auto& x = inference.require(op.x);
  const auto& grid = inference.require(op.grid);
  require_real_type(inference, op.x, x);
  require_real_type(inference, op.grid, grid);
  operations::require_enumerator("mode", op.mode, grid_mode::cubic);
  operations::require_enumerator("padding", op.padding, grid_padding::reflection);
  const auto shape = shape_of_samples(op, inference);
  inference.couple_from(op.x, 2);
  inference.couple(op.grid, grid.rank() - 1);
  const auto& y = inference.result(op.y, x.type, shape);
  grid_call call;
  call.mode = op.mode;
  call.padding = op.padding;
  call.align_corners = op.align_corners;
  call.axis_count = static_cast<std::int32_t>(x.rank() - 2);
  auto x_strides = x.strides;
  auto grid_strides = x.strides;
  grid_strides[0] = grid.strides[0];
  grid_strides[1] = 0;
  const auto component = grid.strides[grid.rank() - 1];
  for (std::size_t d = 2; d < x.rank(); ++d) {
    x_strides[d] = 0;
    grid_strides[d] = grid.strides[d - 1];
    const auto first = static_cast<std::int64_t>(x.rank() - 1 - d);
    call.axes[d - 2] = {x.shape[d], x.strides[d], first * component};
  }
  call.layout = operations::make_layout<3>(shape, {y.strides, x_strides, grid_strides},
                                           {y.type, x.type, grid.type});
  return call;
}

}  // namespace

const operation_descriptor& descriptor_of(operation_type<grid_sample>) {
  return operations::descriptor_of_map<grid_sample, grid_call, infer_grid_sample, &grid_sample::x,
                                       &grid_sample::grid>("grid_sample");
}

}  // namespace sluice
