// SPDX-License-Identifier: Apache-2.0
#include "operations/cuda_build.hpp"
#include "operations/dnn/rotary_functions.hpp"
#include "operations/elementwise/element_sets.hpp"
#include "operations/elementwise/layouts.hpp"

#include <sluice/operations/rotary_embedding.hpp>

#include <array>
#include <cstddef>
#include <string>

namespace sluice {
namespace {

/// The call of a rotary embedding, as traces see it.
struct rotary_embedding_call : operations::rotary_call {
  [[nodiscard]] launch_facts facts() const noexcept {
    return {.sizes = {rows.count, 2 * pairs, copied}};
  }
};

/// The extents of X: batch, heads, sequence, elements of a head.
extents heads_shape(const rotary_embedding& op, const inference& inference, const tensor_spec& x) {
  if (x.rank() != 3 && x.rank() != 4) {
    throw inference.refusal(op.x, "has the shape ", x.shape, ", but must have 3 or 4 dimensions");
  }
  if (x.rank() == 4) {
    if (op.heads == 0 || op.heads == x.shape[1]) return x.shape;
    throw invalid_argument(
        "heads", "is " + std::to_string(op.heads) + ", but x has " + std::to_string(x.shape[1]));
  }
  if (op.heads == 0) throw invalid_argument("heads", "is not given, but x has three dimensions");
  if (op.heads < 1 || x.shape[2] % op.heads != 0) {
    throw invalid_argument("heads", "is " + std::to_string(op.heads) +
                                        ", which does not divide the " +
                                        std::to_string(x.shape[2]) + " elements of x");
  }
  return {x.shape[0], op.heads, x.shape[1], x.shape[2] / op.heads};
}
/// The strides of X or Y along these extents.
extents heads_strides(const tensor_spec& s, const extents& shape) {
  if (s.rank() == 4) return s.strides;
  return {s.strides[0], shape[1] > 1 ? shape[3] * s.strides[2] : 0, s.strides[1], s.strides[2]};
}
std::int64_t rotated_elements(const rotary_embedding& op, std::int64_t size) {
  if (op.rotated == 0 && size % 2 != 0) {
    throw invalid_argument("x", "has heads of " + std::to_string(size) +
                                    " elements, which are not even, and rotated is not given");
  }
  const auto rotated = op.rotated == 0 ? size : op.rotated;
  if (rotated >= 0 && rotated <= size && rotated % 2 == 0) return rotated;
  throw invalid_argument("rotated", "is " + std::to_string(op.rotated) +
                                        ", but must be even and at most the " +
                                        std::to_string(size) + " elements of a head");
}

/// The strides of an operand along batch, heads and sequence, after it is broadcast to `shape`.
struct angle_strides {
  extents rows;
  std::int64_t elements;
};
angle_strides strides_over(const inference& inference, const operand& operand, const tensor_spec& s,
                           const extents& shape) {
  const auto strides = operations::broadcast_strides(inference, operand, s, shape);
  return {{strides[0], 0, strides[1]}, shape.size() > 2 ? strides[2] : 0};
}

rotary_embedding_call infer_rotation(const rotary_embedding& op, inference& inference) {
  const auto& x = inference.require(op.x);
  operations::require_element(inference, op.x, x.type, operations::element_set::real,
                              "rotary_embedding");
  const auto shape = heads_shape(op, inference, x);
  inference.couple(op.x, x.rank() - 1);
  const auto rotated = rotated_elements(op, shape[3]);
  inference.allow_in_place(op.y, op.x);
  const auto& y = inference.result(op.y, x.type, x.shape);
  const auto* const positions = inference.given(op.positions);
  rotary_embedding_call call;
  call.pairs = rotated / 2;
  call.copied = shape[3] - rotated;
  call.interleaved = op.interleaved;
  call.has_positions = positions != nullptr;

  // The strides of operands 2 and 3 along batch, heads and sequence.
  std::array<extents, 2> rows{extents{0, 0, 0}, extents{0, 0, 0}};
  if (positions != nullptr) {
    operations::require_same_type(inference, op.positions, *positions, element_type::i64,
                                  "a position");
    rows[0] = strides_over(inference, op.positions, *positions, {shape[0], shape[2]}).rows;
  }
  for (const auto* operand : {&op.cos, &op.sin}) {
    const std::size_t i = operand == &op.cos ? 0 : 1;
    const auto& s = inference.require(*operand);
    operations::require_same_type(inference, *operand, s, x.type, "x");
    if (positions == nullptr) {
      const auto strides = strides_over(inference, *operand, s, {shape[0], shape[2], call.pairs});
      rows[i] = strides.rows;
      call.strides[i + 2] = strides.elements;
      continue;
    }
    if (s.rank() != 2 || s.shape[1] != call.pairs) {
      throw inference.refusal(*operand, "has the shape ", s.shape,
                              ", but with positions it must have two dimensions, the last one of ",
                              std::to_string(call.pairs));
    }
    if (i == 1 && s.shape[0] != call.cache_rows) {
      throw inference.refusal(*operand, "has the shape ", s.shape, ", but cos has ",
                              std::to_string(call.cache_rows), " rows");
    }
    inference.couple(*operand, 0);
    call.cache_rows = s.shape[0];
    call.cache_strides[i] = s.shape[0] > 1 ? s.strides[0] : 0;
    call.strides[i + 2] = s.strides[1];
  }
  if (x.size() == 0) {
    for (const auto& u : inference.uses()) inference.ignore(*u.operand.value);
    call.rows.count = 0;
    return call;
  }
  const auto rows_of = [](const extents& strides) {
    return extents{strides[0], strides[1], strides[2]};
  };
  const auto y_strides = heads_strides(y, shape);
  const auto x_strides = heads_strides(x, shape);
  call.strides[0] = y_strides[3];
  call.strides[1] = x_strides[3];
  call.rows = operations::make_layout<4>(rows_of(shape),
                                         {rows_of(y_strides), rows_of(x_strides), rows[0], rows[1]},
                                         {x.type, x.type, x.type, x.type});
  return call;
}

operations::rotary_addresses rotation_addresses(const launch_of<rotary_embedding>& launch) {
  return {launch.get<void>(&rotary_embedding::y), launch.get<const void>(&rotary_embedding::x),
          launch.get<const void>(&rotary_embedding::cos),
          launch.get<const void>(&rotary_embedding::sin),
          launch.get<const std::int64_t>(&rotary_embedding::positions)};
}
void compute_rotation(const rotary_embedding_call& call,
                      const launch_of<rotary_embedding>& launch) {
  if (call.rows.count > 0) host::compute_rotary(call, rotation_addresses(launch));
}
void enqueue_rotation(lane_libraries& libraries, const rotary_embedding_call& call,
                      const launch_of<rotary_embedding>& launch) {
  if (call.rows.count > 0) cuda::enqueue_rotary(libraries, call, rotation_addresses(launch));
}

}  // namespace

const operation_descriptor& descriptor_of(operation_type<rotary_embedding>) {
  static const typed_operation_descriptor<rotary_embedding, rotary_embedding_call> descriptor(
      {.name = "rotary_embedding",
       .infer = infer_rotation,
       .host = {.library = "sluice"},
       .compute = compute_rotation,
       .cuda = {.library = "sluice", .prepare = operations::with_cuda<cuda::prepare_rotary>()},
       .enqueue = operations::with_cuda<enqueue_rotation>(),
       .can_be_captured = true});
  return descriptor;
}

}  // namespace sluice
