// SPDX-License-Identifier: Apache-2.0
#include "operations/core/memory_order.hpp"

#include "runtime/seam.hpp"

#include <sluice/runtime/tensor_layout.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>

namespace sluice::operations {

extents memory_order(const tensor_spec& s) {
  return memory_order(s.shape, {&s});
}

extents memory_order(const extents& shape, std::initializer_list<const tensor_spec*> operands) {
  const auto is_model = [&](const tensor_spec* s) {
    if (s->shape != shape) return false;
    for (std::size_t d = 0; d < s->rank(); ++d) {
      if (s->strides[d] == 0 && s->shape[d] > 1) return false;
    }
    return true;
  };
  const auto* const found = std::find_if(operands.begin(), operands.end(), is_model);
  if (found == operands.end() || (*found)->is_contiguous()) return {};
  const auto& strides = (*found)->strides;
  extents order;
  for (std::size_t d = 0; d < shape.size(); ++d) order.push_back(static_cast<std::int64_t>(d));
  std::sort(order.data(), order.data() + order.size(), [&](std::int64_t a, std::int64_t b) {
    const auto a_stride = strides[static_cast<std::size_t>(a)];
    const auto b_stride = strides[static_cast<std::size_t>(b)];
    return a_stride != b_stride ? a_stride > b_stride : a < b;
  });
  return order;
}

extents dimensions_in_memory(const tensor_spec& s) {
  auto order = memory_order(s);
  for (auto d = order.size(); d < s.rank(); ++d) order.push_back(static_cast<std::int64_t>(d));
  return order;
}

tensor_spec spec_in_order(element_type type, const extents& shape, const extents& order) {
  auto spec = tensor_spec::row_major(type, shape);
  if (order.empty()) return spec;
  extents ordered;
  for (const auto axis : order) ordered.push_back(shape[static_cast<std::size_t>(axis)]);
  const auto strides = detail::row_major_strides(ordered);
  for (std::size_t i = 0; i < order.size(); ++i) {
    spec.strides[static_cast<std::size_t>(order[i])] = strides[i];
  }
  // Dimensions of one element have the strides that a tensor gives them.
  spec.strides = tensor_layout(type, shape, spec.strides).strides();
  return spec;
}

bool lies_in(const tensor_spec& s, const extents& order) {
  std::int64_t step = 1;
  for (std::size_t i = order.size(); i-- > 0;) {
    const auto d = static_cast<std::size_t>(order[i]);
    if (s.shape[d] != 1 && s.strides[d] != step) return false;
    step *= s.shape[d];
  }
  return true;
}

}  // namespace sluice::operations
