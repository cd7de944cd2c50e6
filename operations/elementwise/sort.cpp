// SPDX-License-Identifier: Apache-2.0
#include "operations/cuda_build.hpp"
#include "operations/elementwise/layouts.hpp"
#include "operations/elementwise/sort_functions.hpp"
#include "operations/elementwise/workspace_plan.hpp"

#include <sluice/operations/operation.hpp>
#include <sluice/operations/sort.hpp>

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <string>

namespace sluice {
namespace {

using operations::sorted_tile;

/// The call, as traces see it.
struct sorting_call : operations::sort_call {
  /// The number of kernels.
  [[nodiscard]] std::size_t passes() const noexcept {
    std::size_t count = 1;
    if (operations::selects(*this)) {
      for (auto rest = length; rest > sorted_tile; ++count) {
        rest = operations::kept_by_tiles(rest, kept);
      }
    } else {
      count += std::bit_width(static_cast<std::uint64_t>((length - 1) / sorted_tile));
    }
    return count;
  }
  [[nodiscard]] launch_facts facts() const noexcept {
    const auto items = static_cast<double>(rows.count) * static_cast<double>(length);
    return {.sizes = {rows.count, length, kept},
            .commands = passes(),
            .work = items * std::log2(static_cast<double>(std::max<std::int64_t>(length, 1))) +
                    work_of_parts * static_cast<double>(rows.count)};
  }
};

/// The memory of a GPU for sorted parts of rows.
std::int64_t workspace_bytes(const sorting_call& call) {
  if (call.length <= sorted_tile) return 0;
  const auto items =
      operations::selects(call) ? operations::kept_by_tiles(call.length, call.kept) : call.length;
  // What one pass reads and another one writes.
  const std::int64_t buffers = call.passes() > 2 ? 2 : 1;
  std::int64_t bytes =
      buffers * static_cast<std::int64_t>(call.is_narrow() ? sizeof(operations::narrow_item)
                                                           : sizeof(operations::wide_item));
  constexpr auto most = std::numeric_limits<std::int64_t>::max();
  if (__builtin_mul_overflow(bytes, items, &bytes)) return most;
  if (__builtin_mul_overflow(bytes, call.rows.count, &bytes)) return most;
  return operations::rounded_workspace(bytes);
}

template <class Operation>
sorting_call infer_sorted(const Operation& op, inference& inference, std::int64_t kept,
                          std::size_t axis, bool descending) {
  const auto& x = *inference.given(op.x);
  inference.couple(op.x, axis);
  auto shape = x.shape;
  shape[axis] = kept;
  const auto& values = inference.result(op.values, x.type, shape);
  const auto& indices = inference.result(op.indices, element_type::i64, shape);
  sorting_call call;
  if (values.size() == 0) {
    for (const auto& u : inference.uses()) inference.ignore(*u.operand.value);
    return call;
  }
  const auto without_axis = [axis](const extents& all) {
    extents others;
    for (std::size_t d = 0; d < all.size(); ++d) {
      if (d != axis) others.push_back(all[d]);
    }
    return others;
  };
  call.rows = operations::make_layout<3>(
      without_axis(shape),
      {without_axis(values.strides), without_axis(indices.strides), without_axis(x.strides)},
      {x.type, element_type::i64, x.type});
  call.strides[0] = values.strides[axis];
  call.strides[1] = indices.strides[axis];
  call.strides[2] = x.strides[axis];
  call.length = x.shape[axis];
  call.kept = kept;
  call.descending = descending;
  call.key.workspace_bytes = workspace_bytes(call);
  return call;
}

template <class Operation>
std::size_t sorted_axis(const Operation& op, inference& inference) {
  const auto& x = inference.require(op.x);
  if (operations::is_complex(x.type)) {
    throw inference.refusal(op.x, "is of type ", x.type, ", but complex numbers have no order");
  }
  operations::require_arithmetic(inference, op.x, x.type);
  if (x.rank() == 0) throw inference.refusal(op.x, "has no dimension to sort along");
  return operations::dimension_of("axis", op.axis, x.rank());
}

sorting_call infer_sort(const sort& op, inference& inference) {
  const auto axis = sorted_axis(op, inference);
  return infer_sorted(op, inference, inference.require(op.x).shape[axis], axis, op.descending);
}
sorting_call infer_top_k(const top_k& op, inference& inference) {
  const auto axis = sorted_axis(op, inference);
  if (op.k == top_k::not_given) throw invalid_argument("k", "is not given");
  const auto extent = inference.require(op.x).shape[axis];
  if (op.k < 0 || op.k > extent) {
    throw invalid_argument("k", "is " + std::to_string(op.k) + ", but x has " +
                                    std::to_string(extent) + " elements along the dimension");
  }
  return infer_sorted(op, inference, op.k, axis, op.largest);
}

template <class Operation>
operations::sort_addresses sort_addresses_of(const launch_of<Operation>& launch) {
  return {launch.template get<void>(&Operation::values),
          launch.template get<std::int64_t>(&Operation::indices),
          launch.template get<const void>(&Operation::x)};
}
template <class Operation>
void compute_sorted(const sorting_call& call, const launch_of<Operation>& launch) {
  if (call.kept != 0) host::compute_sort(call, sort_addresses_of(launch));
}
template <class Operation>
void enqueue_sorted(lane_libraries& libraries, const sorting_call& call,
                    const launch_of<Operation>& launch) {
  if (call.kept == 0) return;
  cuda::enqueue_sort(libraries, call, sort_addresses_of(launch), launch.workspace());
}

template <class Operation, auto Infer>
const operation_descriptor& sort_descriptor(std::string_view name) {
  static const typed_operation_descriptor<Operation, sorting_call> instance(
      {.name = name,
       .infer = Infer,
       .host = {.library = "Highway"},
       .compute = compute_sorted<Operation>,
       .cuda = {.library = "sluice",
                .prepare = operations::with_cuda<cuda::prepare_sort>(),
                .make_plan = operations::make_workspace_plan<sorting_call>},
       .enqueue = operations::with_cuda<enqueue_sorted<Operation>>(),
       .can_be_captured = true});
  return instance;
}

}  // namespace

const operation_descriptor& descriptor_of(operation_type<sort>) {
  return sort_descriptor<sort, infer_sort>("sort");
}
const operation_descriptor& descriptor_of(operation_type<top_k>) {
  return sort_descriptor<top_k, infer_top_k>("top_k");
}

}  // namespace sluice
