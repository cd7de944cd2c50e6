// SPDX-License-Identifier: Apache-2.0
#include "operations/elementwise/gather_call.hpp"
#include "operations/elementwise/indices.hpp"
#include "operations/elementwise/layouts.hpp"
#include "operations/elementwise/map_functions.hpp"

#include <sluice/operations/gather.hpp>

#include <algorithm>
#include <string>

namespace sluice {
namespace {

using operations::gather_call;

/// The shape of a result and the strides of X and the indices along its dimensions.
struct gathered_dimensions {
  extents shape{};
  extents x{};
  extents indices{};

  /// Adds dimensions `first` to `last` of X or of the indices, or of both.
  void add(const tensor_spec* x_spec, const tensor_spec* index_spec, std::size_t first,
           std::size_t last) {
    for (std::size_t d = first; d < last; ++d) {
      shape.push_back((index_spec != nullptr ? index_spec : x_spec)->shape[d]);
      x.push_back(x_spec != nullptr ? x_spec->strides[d] : 0);
      indices.push_back(index_spec != nullptr ? index_spec->strides[d] : 0);
    }
  }
};

/// The call of a result with these dimensions, which names elements along dimensions `first` to
/// `first + count` of X.
template <class Operation>
gather_call call_for(const Operation& op, inference& inference,
                     const gathered_dimensions& dimensions, std::size_t first, std::size_t count) {
  const auto& x = inference.require(op.x);
  const auto& indices = inference.require(op.indices);
  for (std::size_t i = 0; i < count; ++i) inference.couple(op.x, first + i);
  const auto& y = inference.result(op.y, x.type, dimensions.shape);
  gather_call call{
      operations::make_layout<3>(y.shape, {y.strides, dimensions.x, dimensions.indices},
                                 {x.type, x.type, indices.type}),
      operations::indexed_dimensions_of(x, indices, first, count),
      operations::require_policy(op.out_of_range)};
  if (call.layout.count != 0) operations::require_elements(inference, op.x, x, first, count);
  return call;
}

template <class Operation>
void require_rank(const Operation& op, const inference& inference, std::size_t rank) {
  if (rank <= extents::max_rank) return;
  throw inference.refusal(op.indices, "has the shape ", inference.require(op.indices).shape,
                          ", so the result would have ", rank, " dimensions");
}

gather_call infer_gather(const gather& op, inference& inference) {
  const auto& x = inference.require(op.x);
  const auto& indices = operations::require_indices(inference, op.indices);
  const auto axis = operations::dimension_of("axis", op.axis, x.rank());
  require_rank(op, inference, x.rank() - 1 + indices.rank());
  gathered_dimensions dimensions;
  dimensions.add(&x, nullptr, 0, axis);
  dimensions.add(nullptr, &indices, 0, indices.rank());
  dimensions.add(&x, nullptr, axis + 1, x.rank());
  return call_for(op, inference, dimensions, axis, 1);
}

gather_call infer_gather_elements(const gather_elements& op, inference& inference) {
  const auto& x = inference.require(op.x);
  const auto& indices = operations::require_indices(inference, op.indices);
  const auto axis = operations::dimension_of("axis", op.axis, x.rank());
  operations::require_indices_within(inference, op.indices, x, axis);
  for (std::size_t d = 0; d < x.rank(); ++d) {
    // Indices that are fewer than the elements are those of the first ones.
    if (d == axis || indices.shape[d] == x.shape[d]) continue;
    inference.couple(op.indices, d);
    inference.couple(op.x, d);
  }
  gathered_dimensions dimensions;
  dimensions.add(&x, &indices, 0, x.rank());
  dimensions.x[axis] = 0;
  return call_for(op, inference, dimensions, axis, 1);
}

gather_call infer_gather_nd(const gather_nd& op, inference& inference) {
  const auto& x = inference.require(op.x);
  const auto& indices = operations::require_indices(inference, op.indices);
  const auto most = static_cast<std::int64_t>(std::min(x.rank(), indices.rank())) - 1;
  if (op.batch_dims < 0 || op.batch_dims > std::max<std::int64_t>(most, 0)) {
    throw invalid_argument("batch_dims", std::to_string(op.batch_dims) + " is not within 0 and " +
                                             std::to_string(std::max<std::int64_t>(most, 0)));
  }
  const auto batch_dims = static_cast<std::size_t>(op.batch_dims);
  const auto count = operations::require_points(inference, op.indices, x, batch_dims);
  inference.couple(op.indices, indices.rank() - 1);
  for (std::size_t d = 0; d < batch_dims; ++d) {
    if (indices.shape[d] == x.shape[d]) continue;
    throw inference.refusal(op.indices, "has the shape ", indices.shape, ", but x has the shape ",
                            x.shape);
  }
  require_rank(op, inference, indices.rank() - 1 + x.rank() - batch_dims - count);
  gathered_dimensions dimensions;
  dimensions.add(&x, &indices, 0, batch_dims);
  dimensions.add(nullptr, &indices, batch_dims, indices.rank() - 1);
  dimensions.add(&x, nullptr, batch_dims + count, x.rank());
  return call_for(op, inference, dimensions, batch_dims, count);
}

}  // namespace

const operation_descriptor& descriptor_of(operation_type<gather>) {
  return operations::descriptor_of_map<gather, gather_call, infer_gather, &gather::x,
                                       &gather::indices>("gather");
}
const operation_descriptor& descriptor_of(operation_type<gather_elements>) {
  return operations::descriptor_of_map<gather_elements, gather_call, infer_gather_elements,
                                       &gather_elements::x, &gather_elements::indices>(
      "gather_elements");
}
const operation_descriptor& descriptor_of(operation_type<gather_nd>) {
  return operations::descriptor_of_map<gather_nd, gather_call, infer_gather_nd, &gather_nd::x,
                                       &gather_nd::indices>("gather_nd");
}

}  // namespace sluice
