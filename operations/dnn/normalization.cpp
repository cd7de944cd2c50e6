// SPDX-License-Identifier: Apache-2.0
#include "operations/cuda_build.hpp"
#include "operations/dnn/normalize_functions.hpp"
#include "operations/elementwise/element_sets.hpp"
#include "operations/elementwise/layouts.hpp"

#include <sluice/operations/normalization.hpp>

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <initializer_list>
#include <limits>
#include <string>
#include <string_view>

namespace sluice {
namespace {

using operations::normalization;
using operations::normalize_addresses;

/// The call of a normalization, as traces see it.
struct normalization_call : operations::normalize_call {
  [[nodiscard]] launch_facts facts() const noexcept {
    // Short rows take longer than their elements.
    return {.sizes = {rows, count}, .work = work_of_parts * static_cast<double>(rows)};
  }
};

/// Some dimensions of y and x, with the strides of the parameters along them.
struct dimensions {
  extents shape;
  std::array<extents, 3> strides;  // y, x, parameters

  void add(std::int64_t extent, std::int64_t y, std::int64_t x, std::int64_t parameter) {
    shape.push_back(extent);
    strides[0].push_back(y);
    strides[1].push_back(x);
    strides[2].push_back(parameter);
  }
};

/// The smallest stride of x in a direction; 0 where x is repeated.
std::int64_t smallest_x_stride(const normalization_call& call, int first, int last) {
  std::int64_t smallest = std::numeric_limits<std::int64_t>::max();
  for (int d = first; d < last; ++d) {
    if (call.shape[d] > 1) smallest = std::min(smallest, call.strides[1][d]);
  }
  return smallest;
}

normalization_call make_normalization(normalization kind, element_type type, const dimensions& rows,
                                      const dimensions& elements, double epsilon) {
  normalization_call call;
  const auto row_dimensions = operations::merged(rows.shape, rows.strides.data(), 3);
  const auto element_dimensions = operations::merged(elements.shape, elements.strides.data(), 3);
  call.rows = row_dimensions.count;
  call.count = element_dimensions.count;
  call.epsilon = epsilon;
  call.row_rank = static_cast<std::int32_t>(row_dimensions.rank);
  call.type = operations::storage_of(type);
  call.kind = kind;
  call.rank = 0;
  for (const auto* part : {&row_dimensions, &element_dimensions}) {
    for (std::size_t d = 0; d < part->rank; ++d, ++call.rank) {
      call.shape[call.rank] = part->shape[d];
      for (std::size_t k = 0; k < 3; ++k) call.strides[k][call.rank] = part->strides[k][d];
    }
  }
  // Neighbouring threads take neighbouring elements: of one row, if those are the closest ones,
  // otherwise of different rows.
  constexpr std::int64_t most_lanes = 1024;
  constexpr std::int64_t elements_of_lane = 4;
  if (smallest_x_stride(call, call.row_rank, call.rank) <=
      smallest_x_stride(call, 0, call.row_rank)) {
    const auto lanes = std::clamp<std::int64_t>(call.count / elements_of_lane, 1, most_lanes);
    call.lanes = static_cast<std::int32_t>(std::bit_floor(static_cast<std::uint64_t>(lanes)));
  }
  return call;
}

/// The call of a normalization without any element: the launch touches no operand.
normalization_call empty_call(inference& inference) {
  for (const auto& u : inference.uses()) inference.ignore(*u.operand.value);
  return {};
}

/// X of a type that normalizations take, with at least `least_rank` dimensions.
const tensor_spec& require_x(const inference& inference, const operand& operand,
                             std::string_view name, std::size_t least_rank) {
  const auto& x = inference.require(operand);
  operations::require_element(inference, operand, x.type, operations::element_set::real, name);
  if (x.rank() < least_rank) {
    throw inference.refusal(operand, "has the shape ", x.shape, ", but ", name, " takes at least ",
                            std::to_string(least_rank),
                            least_rank == 1 ? " dimension" : " dimensions");
  }
  return x;
}
const tensor_spec& result_like(inference& inference, const operand& y, const operand& x,
                               const tensor_spec& spec) {
  inference.allow_in_place(y, x);
  return inference.result(y, spec.type, spec.shape, operations::memory_order(spec));
}
/// The number in the type of the computation.
double require_epsilon(double epsilon, element_type type) {
  const bool is_double = type == element_type::f64;
  const double rounded = is_double ? epsilon : static_cast<double>(static_cast<float>(epsilon));
  if (std::isfinite(rounded) && epsilon >= 0) return rounded;
  std::array<char, 32> text{};
  (void)std::snprintf(text.data(), text.size(), "%g", epsilon);
  throw invalid_argument("epsilon", "is " + std::string(text.data()) +
                                        ", but must be a finite number of at least 0" +
                                        (is_double ? "" : " in f32"));
}

/// Checks a parameter for each element of `shape`, to which it is broadcast, and packs it if it
/// does not lie there in row-major order without gaps.
void require_parameter(inference& inference, const operand& operand, const tensor_spec& x,
                       const extents& shape) {
  const auto* const s = inference.given(operand);
  if (s == nullptr) return;
  operations::require_same_type(inference, operand, *s, x.type, "x");
  (void)operations::broadcast_strides(inference, operand, *s, shape);
  if (x.size() != 0 && (s->shape != shape || !s->is_contiguous())) inference.pack(operand, shape);
}
/// Checks a parameter for each channel.
void require_channels(inference& inference, const operand& operand, const tensor_spec& x) {
  const auto* const s = inference.given(operand);
  if (s == nullptr) return;
  if (s->rank() != 1 || s->shape[0] != x.shape[1]) {
    throw inference.refusal(operand, "has the shape ", s->shape, ", but x has ", x.shape[1],
                            " channels");
  }
  require_parameter(inference, operand, x, s->shape);
}

/// A normalization along a dimension.
template <class Operation>
normalization_call infer_axis(normalization kind, std::string_view name, const Operation& op,
                              inference& inference) {
  const auto& x = require_x(inference, op.x, name, 1);
  const auto axis = operations::dimension_of("axis", op.axis, x.rank());
  inference.couple(op.x, axis);
  const auto& y = result_like(inference, op.y, op.x, x);
  if (x.size() == 0) return empty_call(inference);
  dimensions rows;
  dimensions elements;
  for (std::size_t d = 0; d < x.rank(); ++d) {
    (d == axis ? elements : rows).add(x.shape[d], y.strides[d], x.strides[d], 0);
  }
  return make_normalization(kind, x.type, rows, elements, 0);
}
normalization_call infer_softmax(const softmax& op, inference& inference) {
  return infer_axis(normalization::softmax, "softmax", op, inference);
}
normalization_call infer_log_softmax(const log_softmax& op, inference& inference) {
  return infer_axis(normalization::log_softmax, "log_softmax", op, inference);
}
normalization_call infer_lp_norm(const lp_norm& op, inference& inference) {
  if (op.p != 1 && op.p != 2) {
    throw invalid_argument("p", "is " + std::to_string(op.p) + ", but must be 1 or 2");
  }
  return infer_axis(op.p == 1 ? normalization::l1 : normalization::l2, "lp_norm", op, inference);
}

/// A layer or RMS normalization, with the elements from the dimension `axis` on.
template <class Operation>
normalization_call infer_layer(normalization kind, std::string_view name, const Operation& op,
                               std::initializer_list<const operand*> parameters,
                               inference& inference) {
  const auto& x = require_x(inference, op.x, name, 1);
  const auto axis = operations::dimension_of("axis", op.axis, x.rank());
  inference.couple_from(op.x, axis);
  const auto epsilon = require_epsilon(op.epsilon, x.type);
  const auto& y = result_like(inference, op.y, op.x, x);
  extents shape;
  for (std::size_t d = axis; d < x.rank(); ++d) shape.push_back(x.shape[d]);
  for (const auto* parameter : parameters) require_parameter(inference, *parameter, x, shape);
  if (x.size() == 0) return empty_call(inference);
  dimensions rows;
  dimensions elements;
  for (std::size_t d = 0; d < axis; ++d) rows.add(x.shape[d], y.strides[d], x.strides[d], 0);
  extents parameter_strides = x.shape;
  std::int64_t step = 1;
  for (std::size_t d = x.rank(); d-- > axis;) {
    parameter_strides[d] = step;
    step *= x.shape[d];
  }
  for (std::size_t d = axis; d < x.rank(); ++d) {
    elements.add(x.shape[d], y.strides[d], x.strides[d], parameter_strides[d]);
  }
  return make_normalization(kind, x.type, rows, elements, epsilon);
}
normalization_call infer_layer_norm(const layer_norm& op, inference& inference) {
  return infer_layer(normalization::layer, "layer_norm", op, {&op.scale, &op.bias}, inference);
}
normalization_call infer_rms_norm(const rms_norm& op, inference& inference) {
  return infer_layer(normalization::rms, "rms_norm", op, {&op.scale}, inference);
}

normalization_call infer_group_norm(const group_norm& op, inference& inference) {
  const auto& x = require_x(inference, op.x, "group_norm", 2);
  inference.couple_from(op.x, 1);
  const auto channels = x.shape[1];
  if (op.groups < 1 || channels % op.groups != 0) {
    throw invalid_argument("groups", "is " + std::to_string(op.groups) +
                                         ", which does not divide the " + std::to_string(channels) +
                                         " channels of x");
  }
  const auto epsilon = require_epsilon(op.epsilon, x.type);
  const auto& y = result_like(inference, op.y, op.x, x);
  for (const auto* parameter : {&op.scale, &op.bias}) require_channels(inference, *parameter, x);
  if (x.size() == 0) return empty_call(inference);
  const auto size = channels / op.groups;
  dimensions rows;
  dimensions elements;
  rows.add(x.shape[0], y.strides[0], x.strides[0], 0);
  rows.add(op.groups, size * y.strides[1], size * x.strides[1], size);
  elements.add(size, y.strides[1], x.strides[1], 1);
  for (std::size_t d = 2; d < x.rank(); ++d) {
    elements.add(x.shape[d], y.strides[d], x.strides[d], 0);
  }
  return make_normalization(normalization::layer, x.type, rows, elements, epsilon);
}

normalization_call infer_batch_norm(const batch_norm& op, inference& inference) {
  const auto& x = require_x(inference, op.x, "batch_norm", 2);
  const auto epsilon = require_epsilon(op.epsilon, x.type);
  const auto& y = result_like(inference, op.y, op.x, x);
  for (const auto* required : {&op.mean, &op.variance}) (void)inference.require(*required);
  for (const auto* parameter : {&op.mean, &op.variance, &op.scale, &op.bias}) {
    require_channels(inference, *parameter, x);
  }
  if (x.size() == 0) return empty_call(inference);
  dimensions rows;
  dimensions elements;
  for (std::size_t d = 0; d < x.rank(); ++d) {
    (d < 2 ? rows : elements).add(x.shape[d], y.strides[d], x.strides[d], d == 1 ? 1 : 0);
  }
  return make_normalization(normalization::batch, x.type, rows, elements, epsilon);
}

template <class Operation>
normalize_addresses normalization_addresses(const launch_of<Operation>& launch) {
  normalize_addresses addresses{.y = launch.template get<void>(&Operation::y),
                                .x = launch.template get<const void>(&Operation::x)};
  if constexpr (requires { &Operation::scale; }) {
    addresses.scale = launch.template get<const void>(&Operation::scale);
  }
  if constexpr (requires { &Operation::bias; }) {
    addresses.bias = launch.template get<const void>(&Operation::bias);
  }
  if constexpr (requires { &Operation::mean; }) {
    addresses.mean = launch.template get<const void>(&Operation::mean);
    addresses.variance = launch.template get<const void>(&Operation::variance);
  }
  return addresses;
}

template <class Operation>
void compute_normalization(const normalization_call& call, const launch_of<Operation>& launch) {
  if (call.rows == 0 || call.count == 0) return;
  host::compute_normalize(call, normalization_addresses(launch));
}
template <class Operation>
void enqueue_normalization(lane_libraries& libraries, const normalization_call& call,
                           const launch_of<Operation>& launch) {
  if (call.rows == 0 || call.count == 0) return;
  cuda::enqueue_normalize(libraries, call, normalization_addresses(launch));
}

template <class Operation, auto Infer>
const operation_descriptor& describe_normalization(std::string_view name) {
  static const typed_operation_descriptor<Operation, normalization_call> result(
      {.name = name,
       .infer = Infer,
       .host = {.library = "sluice"},
       .compute = compute_normalization<Operation>,
       .cuda = {.library = "sluice", .prepare = operations::with_cuda<cuda::prepare_normalize>()},
       .enqueue = operations::with_cuda<enqueue_normalization<Operation>>(),
       .can_be_captured = true});
  return result;
}

}  // namespace

const operation_descriptor& descriptor_of(operation_type<softmax>) {
  return describe_normalization<softmax, infer_softmax>("softmax");
}
const operation_descriptor& descriptor_of(operation_type<log_softmax>) {
  return describe_normalization<log_softmax, infer_log_softmax>("log_softmax");
}
const operation_descriptor& descriptor_of(operation_type<lp_norm>) {
  return describe_normalization<lp_norm, infer_lp_norm>("lp_norm");
}
const operation_descriptor& descriptor_of(operation_type<layer_norm>) {
  return describe_normalization<layer_norm, infer_layer_norm>("layer_norm");
}
const operation_descriptor& descriptor_of(operation_type<rms_norm>) {
  return describe_normalization<rms_norm, infer_rms_norm>("rms_norm");
}
const operation_descriptor& descriptor_of(operation_type<group_norm>) {
  return describe_normalization<group_norm, infer_group_norm>("group_norm");
}
const operation_descriptor& descriptor_of(operation_type<batch_norm>) {
  return describe_normalization<batch_norm, infer_batch_norm>("batch_norm");
}

}  // namespace sluice
