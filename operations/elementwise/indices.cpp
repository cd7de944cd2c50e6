// SPDX-License-Identifier: Apache-2.0
#include "operations/elementwise/indices.hpp"

#include "operations/core/enumerators.hpp"
#include "operations/elementwise/layouts.hpp"

namespace sluice::operations {

const tensor_spec& require_indices(const inference& inference, const operand& indices) {
  const auto& s = inference.require(indices);
  if (s.type == element_type::i32 || s.type == element_type::i64) return s;
  throw inference.refusal(indices, "is of type ", s.type, ", but must be i32 or i64");
}

out_of_range_policy require_policy(out_of_range_policy out_of_range) {
  require_enumerator("out_of_range", out_of_range, out_of_range_policy::error);
  return out_of_range;
}

void require_indices_within(const inference& inference, const operand& indices,
                            const tensor_spec& x, std::size_t axis) {
  const auto& shape = inference.require(indices).shape;
  bool fits = shape.size() == x.rank();
  for (std::size_t d = 0; fits && d < shape.size(); ++d) {
    fits = d == axis || shape[d] <= x.shape[d];
  }
  if (fits) return;
  throw inference.refusal(indices, "has the shape ", shape, ", which does not fit x of the shape ",
                          x.shape);
}

std::size_t require_points(const inference& inference, const operand& indices, const tensor_spec& x,
                           std::size_t batch_dims) {
  const auto& shape = inference.require(indices).shape;
  const auto most = static_cast<std::int64_t>(x.rank()) - static_cast<std::int64_t>(batch_dims);
  const auto count = shape.empty() ? 0 : shape[shape.size() - 1];
  if (count >= 1 && count <= most) return static_cast<std::size_t>(count);
  throw inference.refusal(indices, "has the shape ", shape,
                          ", whose last extent is not within 1 and ", most);
}

void require_elements(const inference& inference, const operand& operand, const tensor_spec& x,
                      std::size_t first, std::size_t count) {
  for (std::size_t d = first; d < first + count; ++d) {
    if (x.shape[d] != 0) continue;
    throw inference.refusal(operand, "has the shape ", x.shape, ", so no index is in range");
  }
}

indexed_dimensions indexed_dimensions_of(const tensor_spec& x, const tensor_spec& indices,
                                         std::size_t first, std::size_t count) {
  indexed_dimensions indexed;
  indexed.count = static_cast<std::int32_t>(count);
  indexed.index_type = storage_of(indices.type);
  if (count > 1) indexed.index_stride = indices.strides[indices.rank() - 1];
  for (std::size_t i = 0; i < count; ++i) {
    indexed.extents[i] = x.shape[first + i];
    indexed.strides[i] = x.strides[first + i];
  }
  return indexed;
}

}  // namespace sluice::operations
