// SPDX-License-Identifier: Apache-2.0
#include "operations/core/enumerators.hpp"
#include "operations/cuda_build.hpp"
#include "operations/elementwise/layouts.hpp"
#include "operations/elementwise/reduce_functions.hpp"
#include "operations/elementwise/workspace_plan.hpp"

#include <sluice/operations/reduce.hpp>

#include <algorithm>
#include <array>
#include <bit>
#include <string>

namespace sluice {
namespace {

using operations::reduce_call;

/// The call, as the limits and traces see it.
struct reducing_call : reduce_call {
  [[nodiscard]] launch_facts facts() const noexcept {
    // Logarithms and exponential functions take the time of several elements.
    constexpr double work_of_function = 12;
    const auto count = static_cast<double>(results.count);
    if (kind == reduction::log_sum) return {.work = work_of_function * count};
    if (kind != reduction::log_sum_exp) return {};
    return {.work = work_of_function * count * (1 + static_cast<double>(reduced.count))};
  }
};

/// Whether an enumerator is one of some.
template <class... Kinds>
bool is_one_of(reduction kind, Kinds... kinds) {
  return ((kind == kinds) || ...);
}

element_type result_type(reduction kind, element_type x) {
  if (is_one_of(kind, reduction::argmax, reduction::argmin)) return element_type::i64;
  if (is_one_of(kind, reduction::any, reduction::all)) return element_type::boolean;
  if (is_one_of(kind, reduction::max, reduction::min) || x >= element_type::f16) return x;
  if (is_one_of(kind, reduction::mean, reduction::l2, reduction::log_sum, reduction::log_sum_exp,
                reduction::variance)) {
    return element_type::f64;
  }
  const bool is_unsigned = x == element_type::u8 || x == element_type::u16 ||
                           x == element_type::u32 || x == element_type::u64;
  return is_unsigned ? element_type::u64 : element_type::i64;
}

reducing_call infer(const reduce& op, inference& inference) {
  const auto& x = inference.require(op.x);
  operations::require_enumerator("kind", op.kind, reduction::argmin);
  operations::require_arithmetic(inference, op.x, x.type);
  if (operations::is_complex(x.type) &&
      !is_one_of(op.kind, reduction::sum, reduction::mean, reduction::product)) {
    throw inference.refusal(op.x, "is of type ", x.type,
                            ", but only sum, mean and product take complex numbers");
  }
  const bool finds_positions = is_one_of(op.kind, reduction::argmax, reduction::argmin);
  if (op.correction < 0 || (op.correction != 0 && op.kind != reduction::variance)) {
    throw invalid_argument("correction", "is " + std::to_string(op.correction) +
                                             ", but must be 0, or at least 0 for a variance");
  }
  if (op.last && !finds_positions) {
    throw invalid_argument("last", "is true, but only argmax and argmin have it");
  }
  const auto is_reduced = operations::reduced_dimensions(op, x.rank());
  extents kept_shape;
  extents kept_x;
  extents reduced_shape;
  extents reduced_x;
  extents y_shape;
  for (std::size_t d = 0; d < x.rank(); ++d) {
    (is_reduced[d] ? reduced_shape : kept_shape).push_back(x.shape[d]);
    (is_reduced[d] ? reduced_x : kept_x).push_back(x.strides[d]);
    if (!is_reduced[d]) y_shape.push_back(x.shape[d]);
    if (is_reduced[d] && op.keep_dims) y_shape.push_back(1);
    if (is_reduced[d]) inference.couple(op.x, d);
  }
  const auto type = result_type(op.kind, x.type);
  const auto& y = inference.result(op.y, type, y_shape);
  extents kept_y;
  for (std::size_t d = 0, i = 0; d < x.rank(); ++d) {
    if (!is_reduced[d]) kept_y.push_back(y.strides[i]);
    if (!is_reduced[d] || op.keep_dims) ++i;
  }
  reducing_call call;
  call.kind = op.kind;
  call.last = op.last;
  call.correction = op.correction;
  if (y.size() == 0) {
    inference.ignore(op.x);
    inference.ignore(op.y);
    return call;
  }
  // The strides of the elements' numbers; without numbers, those of x, which merge as x does.
  std::int64_t step = 1;
  extents positions = reduced_x;
  for (std::size_t d = reduced_shape.size(); finds_positions && d-- > 0;) {
    positions[d] = step;
    step *= std::max<std::int64_t>(reduced_shape[d], 1);
  }
  call.results = operations::make_layout<2>(kept_shape, {kept_y, kept_x}, {type, x.type});
  call.reduced =
      operations::make_layout<2>(reduced_shape, {reduced_x, positions}, {x.type, x.type});
  if (call.reduced.count == 0 &&
      (finds_positions ||
       is_one_of(op.kind, reduction::mean, reduction::max, reduction::min, reduction::variance))) {
    throw inference.refusal(op.x, "has the shape ", x.shape, ", so there is nothing to reduce");
  }
  operations::distribute(call);
  return call;
}

void compute(const reducing_call& call, const launch_of<reduce>& launch) {
  if (call.results.count == 0) return;
  host::compute_reduce(call, launch.get<const void>(&reduce::x), launch.get<void>(&reduce::y));
}
void enqueue(lane_libraries& libraries, const reducing_call& call,
             const launch_of<reduce>& launch) {
  if (call.results.count == 0) return;
  cuda::enqueue_reduce(libraries, call, launch.get<const void>(&reduce::x),
                       launch.get<void>(&reduce::y), launch.workspace());
}

}  // namespace

namespace operations {

std::array<bool, extents::max_rank> reduced_dimensions(const reduce& op, std::size_t rank) {
  std::array<bool, extents::max_rank> is_reduced{};
  if (!op.axes) {
    std::fill_n(is_reduced.begin(), rank, true);
    return is_reduced;
  }
  for (const auto axis : *op.axes) {
    const auto d = dimension_of("axes", axis, rank);
    if (is_reduced[d]) throw invalid_argument("axes", std::to_string(axis) + " is repeated");
    is_reduced[d] = true;
  }
  return is_reduced;
}

void distribute(reduce_call& call, std::int64_t work) {
  constexpr std::int64_t most_lanes = 256;
  constexpr std::int64_t wanted_threads = 1 << 18;
  constexpr std::int64_t least_of_thread = 8;
  call.key = {};
  call.lanes = 1;
  call.parts = 1;
  call.part_length = call.reduced.count;
  if (call.results.count == 0 || call.reduced.count == 0) return;
  if (smallest_stride(call.reduced, 0) <= smallest_stride(call.results, 1)) {
    const auto lane_count = std::clamp<std::int64_t>(call.reduced.count / 4, 1, most_lanes);
    call.lanes = static_cast<std::int32_t>(std::bit_floor(static_cast<std::uint64_t>(lane_count)));
  }
  // A second kernel costs more than it gains for few elements.
  const std::int64_t least_elements = 32768 / work;
  if (call.reduced.count < least_elements / call.results.count) return;
  // A thread that reduces columns may take several that lie side by side.
  const auto threads = call.lanes == 1 ? 2 * wanted_threads : wanted_threads;
  const auto parts = std::min(threads / call.lanes / call.results.count,
                              call.reduced.count / (call.lanes * least_of_thread));
  if (parts < 2) return;
  // Every part has elements, and begins with a vector of 16 bytes.
  constexpr std::int64_t most_of_vector = 16;
  call.part_length = (call.reduced.count + parts - 1) / parts;
  call.part_length = (call.part_length + most_of_vector - 1) / most_of_vector * most_of_vector;
  call.parts = (call.reduced.count + call.part_length - 1) / call.part_length;
  const auto value_bytes =
      visit(call, [](const auto& reducer) { return static_cast<int>(sizeof(reducer.identity())); });
  call.key.workspace_bytes = static_cast<std::int64_t>(
      std::bit_ceil(static_cast<std::uint64_t>(call.parts * call.results.count * value_bytes)));
}

const reduce_call* reduce_call_of(const operation_descriptor& descriptor,
                                  const call_storage& call) {
  if (&descriptor != &descriptor_of(operation_type<reduce>{})) return nullptr;
  return reinterpret_cast<const reducing_call*>(call.bytes.data());
}

}  // namespace operations

const operation_descriptor& descriptor_of(operation_type<reduce>) {
  static const typed_operation_descriptor<reduce, reducing_call> descriptor(
      {.name = "reduce",
       .infer = infer,
       .host = {.library = "sluice"},
       .compute = compute,
       .cuda = {.library = "sluice",
                .prepare = operations::with_cuda<cuda::prepare_reduce>(),
                .make_plan = operations::make_workspace_plan<reducing_call>},
       .enqueue = operations::with_cuda<enqueue>(),
       .can_be_captured = true});
  return descriptor;
}

}  // namespace sluice
