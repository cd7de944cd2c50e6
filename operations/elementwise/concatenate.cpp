// SPDX-License-Identifier: Apache-2.0
#include "operations/cuda_build.hpp"
#include "operations/elementwise/concatenate_functions.hpp"
#include "operations/elementwise/layouts.hpp"

#include <sluice/operations/concatenate.hpp>
#include <sluice/operations/operation.hpp>

#include <algorithm>
#include <string>

namespace sluice {
namespace {

using operations::concatenate_addresses;

static_assert(operations::max_pieces == max_operands - 1);

/// The call, as traces see it.
struct concatenating_call : operations::concatenate_call {
  [[nodiscard]] launch_facts facts() const noexcept { return {.sizes = {rows, row_bytes, pieces}}; }
};

/// The same order with a new dimension `axis` at this position.
extents with_dimension(const extents& order, std::size_t axis) {
  extents wider;
  for (std::size_t i = 0; i <= order.size(); ++i) {
    if (i == axis) wider.push_back(static_cast<std::int64_t>(axis));
    if (i == order.size()) break;
    wider.push_back(order[i] + (order[i] >= static_cast<std::int64_t>(axis) ? 1 : 0));
  }
  return wider;
}
/// The same order without the dimension `axis`.
extents without_dimension(const extents& order, std::size_t axis) {
  extents narrower;
  for (const auto d : order) {
    if (d == static_cast<std::int64_t>(axis)) continue;
    narrower.push_back(d - (d > static_cast<std::int64_t>(axis) ? 1 : 0));
  }
  return narrower;
}

/// Works out the rows. An x has the dimensions of Y; of a stack, those without `axis`.
template <class Operation>
concatenating_call infer_pieces(const Operation& op, inference& inference, std::size_t axis,
                                const extents& shape, bool is_stack) {
  const auto& first = *inference.given(op.x.front());
  const auto new_order = is_stack ? with_dimension(operations::dimensions_in_memory(first), axis)
                                  : operations::dimensions_in_memory(first);
  const auto& y = inference.result(op.y, first.type, shape, new_order);
  concatenating_call call;
  call.pieces = static_cast<std::int32_t>(op.x.size());
  if (y.size() == 0) {
    for (const auto& u : inference.uses()) inference.ignore(*u.operand.value);
    return call;
  }
  auto order = operations::dimensions_in_memory(y);
  if (!operations::lies_in(y, order)) {
    inference.pack(op.y);
    order = operations::dimensions_in_memory(y);
  }
  const auto x_order = is_stack ? without_dimension(order, axis) : order;
  const auto position = static_cast<std::size_t>(
      std::find(order.begin(), order.end(), static_cast<std::int64_t>(axis)) - order.begin());
  std::int64_t row_size = static_cast<std::int64_t>(size_of(y.type));
  call.rows = 1;
  for (std::size_t i = 0; i < order.size(); ++i) {
    const auto extent = y.shape[static_cast<std::size_t>(order[i])];
    if (i < position) call.rows *= extent;
    if (i > position) row_size *= extent;
  }
  call.row_bytes = row_size * y.shape[axis];
  for (std::size_t i = 0; i < op.x.size(); ++i) {
    const auto& x = *inference.given(op.x[i]);
    const auto extent = is_stack ? 1 : x.shape[axis];
    call.piece_bytes[i] = row_size * extent;
    if (extent == 0) {
      inference.ignore(op.x[i]);
    } else if (!operations::lies_in(x, x_order)) {
      inference.pack(op.x[i], x.shape, x_order);
    }
  }
  return call;
}

/// The first tensor of a list.
template <class Operation>
const tensor_spec& require_first(const Operation& op, inference& inference) {
  if (op.x.empty()) throw invalid_argument("x", "is empty: there must be at least one tensor");
  return inference.require(op.x.front());
}
error shape_refusal(const inference& inference, const operand& operand, const tensor_spec& x,
                    const tensor_spec& first) {
  return inference.refusal(operand, "has the shape ", x.shape, ", which does not fit ", first.shape,
                           " of x[0]");
}

concatenating_call infer_concatenate(const concatenate& op, inference& inference) {
  const auto& first = require_first(op, inference);
  if (first.rank() == 0) throw inference.refusal(op.x.front(), "has no dimension; stack adds one");
  const auto axis = operations::dimension_of("axis", op.axis, first.rank());
  auto shape = first.shape;
  for (std::size_t i = 1; i < op.x.size(); ++i) {
    const auto& x = inference.require(op.x[i]);
    operations::require_same_type(inference, op.x[i], x, first.type, "x[0]");
    bool fits = x.rank() == first.rank();
    for (std::size_t d = 0; fits && d < first.rank(); ++d) {
      fits = d == axis || x.shape[d] == first.shape[d];
    }
    if (!fits) throw shape_refusal(inference, op.x[i], x, first);
    inference.couple(op.x[i], axis);
    inference.couple(op.x.front(), axis);
    if (__builtin_add_overflow(shape[axis], x.shape[axis], &shape[axis])) {
      throw inference.refusal(op.x[i], "has the shape ", x.shape,
                              ", with which the extent of the result overflows");
    }
  }
  return infer_pieces(op, inference, axis, shape, false);
}

concatenating_call infer_stack(const stack& op, inference& inference) {
  const auto& first = require_first(op, inference);
  if (first.rank() == extents::max_rank) {
    throw inference.refusal(op.x.front(), "has ", std::to_string(first.rank()),
                            " dimensions, so there is no room for another one");
  }
  const auto axis = operations::dimension_of("axis", op.axis, first.rank() + 1);
  for (std::size_t i = 1; i < op.x.size(); ++i) {
    const auto& x = inference.require(op.x[i]);
    operations::require_same_type(inference, op.x[i], x, first.type, "x[0]");
    if (x.shape != first.shape) throw shape_refusal(inference, op.x[i], x, first);
  }
  extents shape;
  for (std::size_t d = 0; d <= first.rank(); ++d) {
    if (d == axis) shape.push_back(static_cast<std::int64_t>(op.x.size()));
    if (d < first.rank()) shape.push_back(first.shape[d]);
  }
  return infer_pieces(op, inference, axis, shape, true);
}

template <class Operation>
concatenate_addresses piece_addresses(const launch_of<Operation>& launch) {
  concatenate_addresses addresses;
  for (std::size_t i = 0; i < launch.size(&Operation::x); ++i) {
    addresses.x[i] = launch.template get<const void>(&Operation::x, i);
  }
  addresses.y = launch.template get<void>(&Operation::y);
  return addresses;
}
template <class Operation>
void compute_concatenation(const concatenating_call& call, const launch_of<Operation>& launch) {
  if (call.rows != 0) host::compute_concatenate(call, piece_addresses(launch));
}
template <class Operation>
void enqueue_concatenation(lane_libraries& libraries, const concatenating_call& call,
                           const launch_of<Operation>& launch) {
  if (call.rows != 0) cuda::enqueue_concatenate(libraries, call, piece_addresses(launch));
}

template <class Operation, auto Infer>
const operation_descriptor& descriptor(std::string_view name) {
  static const typed_operation_descriptor<Operation, concatenating_call> instance(
      {.name = name,
       .infer = Infer,
       .host = {.library = "sluice"},
       .compute = compute_concatenation<Operation>,
       .cuda = {.library = "sluice", .prepare = operations::with_cuda<cuda::prepare_concatenate>()},
       .enqueue = operations::with_cuda<enqueue_concatenation<Operation>>(),
       .can_be_captured = true});
  return instance;
}

}  // namespace

const operation_descriptor& descriptor_of(operation_type<concatenate>) {
  return descriptor<concatenate, infer_concatenate>("concatenate");
}
const operation_descriptor& descriptor_of(operation_type<stack>) {
  return descriptor<stack, infer_stack>("stack");
}

}  // namespace sluice
