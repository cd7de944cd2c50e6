// SPDX-License-Identifier: Apache-2.0
#include "operations/core/enumerators.hpp"
#include "operations/elementwise/indices.hpp"
#include "operations/elementwise/layouts.hpp"
#include "operations/elementwise/map_functions.hpp"
#include "operations/elementwise/rearrange_call.hpp"

#include <sluice/operations/rearrangement.hpp>

#include <cstddef>
#include <cstdint>
#include <string>

namespace sluice {
namespace {

using operations::copy_call;
using operations::reverse_call;
using operations::reverse_sequence_call;

/// X, which has images.
const tensor_spec& require_images(const inference& inference, const operand& operand) {
  const auto& x = inference.require(operand);
  if (x.rank() == 4) return x;
  throw inference.refusal(operand, "has the shape ", x.shape, ", but must have 4 dimensions");
}

/// The strides of images as the dimensions N, C, H, block row, W, block column.
extents flat_strides(const tensor_spec& images, std::int64_t block) {
  const auto& s = images.strides;
  return {s[0], s[1], s[2] * block, s[2], s[3] * block, s[3]};
}
/// Likewise of images whose channels are those of blocks. `channels` are those without blocks.
extents deep_strides(const tensor_spec& images, std::int64_t block, std::int64_t channels,
                     depth_order order) {
  const auto& s = images.strides;
  const bool is_dcr = order == depth_order::dcr;
  const auto column = is_dcr ? s[1] * channels : s[1];
  return {s[0], is_dcr ? s[1] : s[1] * block * block, s[2], column * block, s[3], column};
}

/// The layout of a copy between flat images of the shape `flat` and deep ones.
copy_call copy_of_blocks(const extents& flat, std::int64_t block, element_type type,
                         const extents& y_strides, const extents& x_strides) {
  return {
      operations::make_layout<2>({flat[0], flat[1], flat[2] / block, block, flat[3] / block, block},
                                 {y_strides, x_strides}, {type, type})};
}

void require_block(std::int64_t block, depth_order order) {
  operations::require_enumerator("order", order, depth_order::crd);
  if (block < 1) {
    throw invalid_argument("block", std::to_string(block) + " is less than 1");
  }
}

copy_call infer_depth_to_space(const depth_to_space& op, inference& inference) {
  const auto& x = require_images(inference, op.x);
  inference.couple_from(op.x, 1);
  require_block(op.block, op.order);
  std::int64_t positions = 0;
  extents shape{x.shape[0], 0, 0, 0};
  if (__builtin_mul_overflow(op.block, op.block, &positions) || x.shape[1] % positions != 0 ||
      __builtin_mul_overflow(x.shape[2], op.block, &shape[2]) ||
      __builtin_mul_overflow(x.shape[3], op.block, &shape[3])) {
    throw invalid_argument(
        "block", std::to_string(op.block) + " does not fit x of the shape " + to_string(x.shape));
  }
  shape[1] = x.shape[1] / positions;
  const auto& y = inference.result(op.y, x.type, shape);
  if (y.size() == 0) return {};
  return copy_of_blocks(shape, op.block, x.type, flat_strides(y, op.block),
                        deep_strides(x, op.block, shape[1], op.order));
}

copy_call infer_space_to_depth(const space_to_depth& op, inference& inference) {
  const auto& x = require_images(inference, op.x);
  inference.couple_from(op.x, 1);
  require_block(op.block, op.order);
  extents shape{x.shape[0], 0, x.shape[2] / op.block, x.shape[3] / op.block};
  if (x.shape[2] % op.block != 0 || x.shape[3] % op.block != 0 ||
      __builtin_mul_overflow(x.shape[1], op.block, &shape[1]) ||
      __builtin_mul_overflow(shape[1], op.block, &shape[1])) {
    throw invalid_argument(
        "block", std::to_string(op.block) + " does not fit x of the shape " + to_string(x.shape));
  }
  const auto& y = inference.result(op.y, x.type, shape);
  if (y.size() == 0) return {};
  return copy_of_blocks(x.shape, op.block, x.type, deep_strides(y, op.block, x.shape[1], op.order),
                        flat_strides(x, op.block));
}

reverse_call infer_reverse(const reverse& op, inference& inference) {
  const auto& x = inference.require(op.x);
  std::uint32_t reversed = 0;
  for (const auto axis : op.axes) {
    const auto dimension = operations::dimension_of("axes", axis, x.rank());
    const auto bit = 1U << dimension;
    inference.couple(op.x, dimension);
    if ((reversed & bit) != 0) {
      throw invalid_argument("axes", "names dimension " + std::to_string(axis) + " twice");
    }
    reversed |= bit;
  }
  const auto& y = inference.result(op.y, x.type, x.shape);
  if (y.size() == 0) return {};
  reverse_call call;
  auto strides = x.strides;
  for (std::size_t d = 0; d < x.rank(); ++d) {
    if (((reversed >> d) & 1U) == 0) continue;
    call.first += (x.shape[d] - 1) * strides[d];
    strides[d] = -strides[d];
  }
  call.layout = operations::make_layout<2>(x.shape, {y.strides, strides}, {x.type, x.type});
  return call;
}

reverse_sequence_call infer_reverse_sequence(const reverse_sequence& op, inference& inference) {
  const auto& x = inference.require(op.x);
  const auto& lengths = operations::require_indices(inference, op.lengths);
  const auto time = operations::dimension_of("time_axis", op.time_axis, x.rank());
  const auto batch = operations::dimension_of("batch_axis", op.batch_axis, x.rank());
  inference.couple(op.x, time);
  if (time == batch) {
    throw invalid_argument("batch_axis", std::to_string(op.batch_axis) + " is the time axis");
  }
  if (lengths.rank() != 1 || lengths.shape[0] != x.shape[batch]) {
    throw inference.refusal(op.lengths, "has the shape ", lengths.shape, ", but x has ",
                            x.shape[batch], " sequences");
  }
  const auto& y = inference.result(op.y, x.type, x.shape);
  if (y.size() == 0) return {};
  auto length_strides = x.shape;
  auto coordinates = x.shape;
  for (std::size_t d = 0; d < x.rank(); ++d) {
    length_strides[d] = d == batch ? lengths.strides[0] : 0;
    coordinates[d] = d == time ? 1 : 0;
  }
  reverse_sequence_call call{
      operations::make_layout<4>(x.shape, {y.strides, x.strides, length_strides, coordinates},
                                 {x.type, x.type, lengths.type, x.type})};
  call.extent = x.shape[time];
  call.x_stride = x.strides[time];
  return call;
}

}  // namespace

const operation_descriptor& descriptor_of(operation_type<depth_to_space>) {
  return operations::descriptor_of_map<depth_to_space, copy_call, infer_depth_to_space,
                                       &depth_to_space::x>("depth_to_space");
}
const operation_descriptor& descriptor_of(operation_type<space_to_depth>) {
  return operations::descriptor_of_map<space_to_depth, copy_call, infer_space_to_depth,
                                       &space_to_depth::x>("space_to_depth");
}
const operation_descriptor& descriptor_of(operation_type<reverse>) {
  return operations::descriptor_of_map<reverse, reverse_call, infer_reverse, &reverse::x>(
      "reverse");
}
const operation_descriptor& descriptor_of(operation_type<reverse_sequence>) {
  return operations::descriptor_of_map<reverse_sequence, reverse_sequence_call,
                                       infer_reverse_sequence, &reverse_sequence::x,
                                       &reverse_sequence::lengths>("reverse_sequence");
}

}  // namespace sluice
