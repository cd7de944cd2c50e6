// SPDX-License-Identifier: Apache-2.0
#include "operations/core/enumerators.hpp"
#include "operations/cuda_build.hpp"
#include "operations/elementwise/indices.hpp"
#include "operations/elementwise/layouts.hpp"
#include "operations/elementwise/scatter_functions.hpp"

#include <sluice/operations/scatter.hpp>

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

namespace sluice {
namespace {

using operations::scatter_addresses;
using operations::scatter_work;

/// Updates of a tensor. The layouts that kernels take would be larger than a call may be; `work`
/// makes them.
struct scatter_call {
  using numbers = std::array<std::int64_t, extents::max_rank>;
  static constexpr std::int8_t indexed = -1;

  numbers shape{};  ///< of x and y
  numbers x_strides{};
  numbers y_strides{};
  numbers update_shape{};
  numbers update_strides{};
  numbers index_strides{};  ///< along the dimensions of the updates
  /// The dimension of y that is one of the updates; `indexed` if indices name the place instead.
  std::array<std::int8_t, extents::max_rank> dimensions{};
  std::int64_t index_stride = 0;  ///< from the index of a dimension to the next one
  std::uint8_t rank = 0;          ///< of x and y; 0: nothing is done
  std::uint8_t update_rank = 0;
  std::uint8_t indexed_first = 0;  ///< the first dimension of y that indices name
  std::uint8_t indexed_count = 0;  ///< the number of such dimensions; 0: there are no updates
  element_type type = element_type::f32;
  element_type index_type = element_type::i64;
  scatter_combine combine = scatter_combine::set;
  bool deterministic = false;
  out_of_range_policy out_of_range = out_of_range_policy::usual;

  [[nodiscard]] scatter_work work() const;
  [[nodiscard]] launch_facts facts() const noexcept {
    return {.commands = 2,
            .errors = indexed_count != 0 ? detection_of(out_of_range) : error_detection::none};
  }
};

extents first_of(const scatter_call::numbers& numbers, std::size_t count) {
  return extents(std::span<const std::int64_t>(numbers.data(), count));
}

scatter_work scatter_call::work() const {
  scatter_work work;
  work.copy = operations::make_layout<2>(
      first_of(shape, rank), {first_of(y_strides, rank), first_of(x_strides, rank)}, {type, type});
  if (indexed_count == 0) return work;
  work.combine = combine;
  work.in_order = deterministic;
  work.indexed.count = indexed_count;
  work.indexed.index_type = operations::storage_of(index_type);
  work.indexed.index_stride = index_stride;
  for (std::size_t i = 0; i < indexed_count; ++i) {
    work.indexed.extents[i] = shape[indexed_first + i];
    work.indexed.strides[i] = y_strides[indexed_first + i];
  }
  auto& layout = work.updates;
  layout.types[0] = layout.types[1] = operations::storage_of(type);
  layout.types[2] = operations::storage_of(index_type);
  layout.count = 1;
  layout.rank = 0;
  for (std::size_t d = 0; d < update_rank; ++d) {
    if (update_shape[d] == 1) continue;
    layout.count *= update_shape[d];
    const bool collides = dimensions[d] == indexed;
    const std::int64_t strides[] = {
        collides ? 0 : y_strides[static_cast<std::size_t>(dimensions[d])], update_strides[d],
        index_strides[d]};
    const int last = layout.rank - 1;
    bool merges = last >= 0 && ((work.collisions >> last) & 1U) == (collides ? 1U : 0U);
    for (int k = 0; merges && k < 3; ++k) {
      merges = layout.strides[k][last] == strides[k] * update_shape[d];
    }
    const int target = merges ? last : layout.rank++;
    layout.shape[target] = (merges ? layout.shape[last] : 1) * update_shape[d];
    for (int k = 0; k < 3; ++k) layout.strides[k][target] = strides[k];
    if (collides) work.collisions |= 1U << target;
  }
  if (layout.rank == 0) {
    layout.rank = 1;
    layout.shape[0] = 1;
  }
  return work;
}

/// What both operations refuse, and their call without the dimensions of the updates.
template <class Operation>
scatter_call begin_call(const Operation& op, inference& inference, std::size_t first,
                        std::size_t count) {
  const auto& x = inference.require(op.x);
  const auto& indices = inference.require(op.indices);
  const auto& updates = inference.require(op.updates);
  operations::require_enumerator("combine", op.combine, scatter_combine::maximum);
  operations::require_same_type(inference, op.updates, updates, x.type, "x");
  if (operations::is_complex(x.type) && op.combine > scatter_combine::multiply) {
    throw inference.refusal(op.x, "is of type ", x.type, ", which has no minimum or maximum");
  }
  if (op.combine != scatter_combine::set) {
    operations::require_arithmetic(inference, op.x, x.type);
  }
  for (std::size_t i = 0; i < count; ++i) inference.couple(op.x, first + i);
  inference.allow_in_place(op.y, op.x);
  const auto& y = inference.result(op.y, x.type, x.shape);
  if (updates.size() != 0) operations::require_elements(inference, op.x, x, first, count);
  scatter_call call;
  call.out_of_range = operations::require_policy(op.out_of_range);
  call.type = x.type;
  call.combine = op.combine;
  // No atomic operation multiplies numbers of 16 bytes.
  call.deterministic =
      op.deterministic || (x.type == element_type::c128 && op.combine == scatter_combine::multiply);
  if (updates.size() == 0) {
    inference.ignore(op.indices);
    inference.ignore(op.updates);
  }
  if (y.size() == 0) {
    inference.ignore(op.x);
    inference.ignore(op.y);
    return call;
  }
  call.rank = static_cast<std::uint8_t>(x.rank());
  for (std::size_t d = 0; d < x.rank(); ++d) {
    call.shape[d] = x.shape[d];
    call.x_strides[d] = x.strides[d];
    call.y_strides[d] = y.strides[d];
  }
  if (updates.size() == 0) return call;
  call.indexed_first = static_cast<std::uint8_t>(first);
  call.indexed_count = static_cast<std::uint8_t>(count);
  call.index_type = indices.type;
  if (count > 1) call.index_stride = indices.strides[indices.rank() - 1];
  call.update_rank = static_cast<std::uint8_t>(updates.rank());
  for (std::size_t d = 0; d < updates.rank(); ++d) {
    call.update_shape[d] = updates.shape[d];
    call.update_strides[d] = updates.strides[d];
  }
  return call;
}

void require_update_shape(const inference& inference, const operand& updates,
                          const extents& indices, const extents& shape) {
  const auto& s = inference.require(updates);
  if (s.shape == shape) return;
  throw inference.refusal(updates, "has the shape ", s.shape, ", but indices of the shape ",
                          indices, " ask for ", shape);
}

scatter_call infer_scatter_elements(const scatter_elements& op, inference& inference) {
  const auto& x = inference.require(op.x);
  const auto& indices = operations::require_indices(inference, op.indices);
  const auto axis = operations::dimension_of("axis", op.axis, x.rank());
  operations::require_indices_within(inference, op.indices, x, axis);
  require_update_shape(inference, op.updates, indices.shape, indices.shape);
  for (std::size_t d = 0; d < x.rank(); ++d) {
    // Indices that are fewer than the elements stand for the first ones.
    if (d != axis && indices.shape[d] == x.shape[d]) continue;
    for (const auto* operand : {&op.x, &op.indices, &op.updates}) inference.couple(*operand, d);
  }
  auto call = begin_call(op, inference, axis, 1);
  for (std::size_t d = 0; d < x.rank(); ++d) {
    call.index_strides[d] = indices.strides[d];
    call.dimensions[d] = d == axis ? scatter_call::indexed : static_cast<std::int8_t>(d);
  }
  return call;
}

scatter_call infer_scatter_nd(const scatter_nd& op, inference& inference) {
  const auto& x = inference.require(op.x);
  const auto& indices = operations::require_indices(inference, op.indices);
  const auto count = operations::require_points(inference, op.indices, x, 0);
  const auto points = indices.rank() - 1;
  if (points + x.rank() - count > extents::max_rank) {
    throw inference.refusal(op.indices, "has the shape ", indices.shape,
                            ", so the updates would have ", points + x.rank() - count,
                            " dimensions");
  }
  extents shape;
  for (std::size_t d = 0; d < points; ++d) shape.push_back(indices.shape[d]);
  for (auto d = count; d < x.rank(); ++d) shape.push_back(x.shape[d]);
  require_update_shape(inference, op.updates, indices.shape, shape);
  inference.couple_from(op.indices, 0);
  for (std::size_t d = 0; d < points; ++d) inference.couple(op.updates, d);
  auto call = begin_call(op, inference, 0, count);
  for (std::size_t d = 0; d < shape.size(); ++d) {
    const bool is_point = d < points;
    call.index_strides[d] = is_point ? indices.strides[d] : 0;
    call.dimensions[d] =
        is_point ? scatter_call::indexed : static_cast<std::int8_t>(d - points + count);
  }
  return call;
}

template <class Operation>
scatter_addresses addresses_of(const launch_of<Operation>& launch) {
  return {launch.template get<const void>(&Operation::x),
          launch.template get<const void>(&Operation::indices),
          launch.template get<const void>(&Operation::updates),
          launch.template get<void>(&Operation::y)};
}
/// The work of one launch, which reports indices that are out of range if that is an error.
template <class Operation>
scatter_work work_of_launch(const scatter_call& call, const launch_of<Operation>& launch,
                            device_kind kind) {
  auto work = call.work();
  if (detects_errors(call.facts().errors, kind)) {
    work.errors = launch.index_errors(&Operation::indices);
  }
  return work;
}
template <class Operation>
void compute_updates(const scatter_call& call, const launch_of<Operation>& launch) {
  if (call.rank == 0) return;
  host::compute_scatter(work_of_launch(call, launch, device_kind::host), addresses_of(launch));
}
template <class Operation>
void enqueue_updates(lane_libraries& libraries, const scatter_call& call,
                     const launch_of<Operation>& launch) {
  if (call.rank == 0) return;
  cuda::enqueue_scatter(libraries, work_of_launch(call, launch, device_kind::cuda),
                        addresses_of(launch));
}

template <class Operation, auto Infer>
const operation_descriptor& descriptor_of_scatter(std::string_view name) {
  static const typed_operation_descriptor<Operation, scatter_call> descriptor(
      {.name = name,
       .infer = Infer,
       .host = {.library = "sluice"},
       .compute = compute_updates<Operation>,
       .cuda = {.library = "sluice", .prepare = operations::with_cuda<cuda::prepare_scatter>()},
       .enqueue = operations::with_cuda<enqueue_updates<Operation>>(),
       .can_be_captured = true});
  return descriptor;
}

}  // namespace

const operation_descriptor& descriptor_of(operation_type<scatter_elements>) {
  return descriptor_of_scatter<scatter_elements, infer_scatter_elements>("scatter_elements");
}
const operation_descriptor& descriptor_of(operation_type<scatter_nd>) {
  return descriptor_of_scatter<scatter_nd, infer_scatter_nd>("scatter_nd");
}

}  // namespace sluice
