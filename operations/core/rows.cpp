// SPDX-License-Identifier: Apache-2.0
#include "operations/core/rows.hpp"

#include "runtime/seam.hpp"

#include <sluice/operations/inference.hpp>

#include <string>

namespace sluice::operations {

std::optional<std::int64_t> distance_of(const tensor_spec& s, std::size_t inner,
                                        const extents& stack) {
  const auto stack_rank = s.rank() - inner;
  std::int64_t innermost = 0;
  std::int64_t count = 1;  // members in the dimensions visited so far
  for (std::size_t from_end = 1; from_end <= stack.size(); ++from_end) {
    const auto extent = stack[stack.size() - from_end];
    if (extent == 1) continue;
    const bool repeated = from_end > stack_rank || s.shape[stack_rank - from_end] == 1;
    const auto step = repeated ? 0 : s.strides[stack_rank - from_end];
    if (count == 1) {
      innermost = step;
    } else if (step != innermost * count) {
      return std::nullopt;
    }
    count *= extent;
  }
  return innermost;
}

extents stack_of(const tensor_spec& s, std::size_t inner) {
  extents stack;
  for (std::size_t i = 0; i + inner < s.rank(); ++i) stack.push_back(s.shape[i]);
  return stack;
}

extents stated_shape(const std::optional<extents>& shape, const tensor_spec* result,
                     element_type type) {
  if (shape) return tensor_spec::row_major(type, *shape).shape;
  if (result == nullptr) throw invalid_argument("shape", "is not given");
  return result->shape;
}

}  // namespace sluice::operations
