// SPDX-License-Identifier: Apache-2.0
#include "operations/elementwise/layouts.hpp"

#include "operations/core/element_value.hpp"

#include <algorithm>
#include <cstring>
#include <string>

namespace sluice::operations {

void require_same_type(const inference& inference, const operand& operand, const tensor_spec& s,
                       element_type type, std::string_view model) {
  if (s.type == type) return;
  throw inference.refusal(operand, "is of type ", s.type, ", but ", model, " is of type ", type,
                          "; cast converts");
}

void require_arithmetic(const inference& inference, const operand& operand, element_type type) {
  if (!is_float8(type)) return;
  throw inference.refusal(operand, "is of type ", type,
                          ", which this operation does not take; cast converts");
}

number_input require_number(const inference& inference, const operand_or_number& a,
                            const operand_or_number& b) {
  number_input result;
  if (!a.number() && !b.number()) return result;
  if (a.number() && b.number()) {
    throw invalid_argument(std::string(inference.name(a)) + ", " + std::string(inference.name(b)),
                           "one of them must be a tensor");
  }
  result.a = a.number().has_value();
  result.b = !result.a;
  const operand_or_number& number = result.a ? a : b;
  const auto type = inference.require(result.a ? b : a).type;
  result.spec = tensor_spec::row_major(type, {});
  result.value.input = result.a ? 0 : 1;
  const auto element = element_value(*number.number(), type, inference.name(number));
  std::memcpy(result.value.bytes, element.data(), element.size());
  return result;
}

extents broadcast_strides(const inference& inference, const operand& operand, const tensor_spec& s,
                          const extents& shape) {
  extents strides = shape;
  std::fill_n(strides.data(), strides.size(), 0);
  bool fits = s.rank() <= shape.size();
  for (std::size_t i = 0; fits && i < s.rank(); ++i) {
    const auto d = shape.size() - s.rank() + i;
    if (s.shape[i] == 1) continue;
    fits = s.shape[i] == shape[d];
    strides[d] = s.strides[i];
  }
  if (!fits) {
    throw inference.refusal(operand, "has the shape ", s.shape, ", which cannot be broadcast to ",
                            shape);
  }
  return strides;
}

extents common_shape(const inference& inference, const operand& operand, const extents& a,
                     const extents& b) {
  const auto& longer = a.size() >= b.size() ? a : b;
  const auto& shorter = a.size() >= b.size() ? b : a;
  extents shape = longer;
  for (std::size_t i = 0; i < shorter.size(); ++i) {
    auto& extent = shape[longer.size() - shorter.size() + i];
    if (extent == 1) {
      extent = shorter[i];
    } else if (shorter[i] != 1 && shorter[i] != extent) {
      throw inference.refusal(operand, "has the shape ", b, ", which cannot be broadcast with ", a);
    }
  }
  return shape;
}

std::size_t dimension_of(std::string_view name, std::int64_t axis, std::size_t rank) {
  const auto dimensions = static_cast<std::int64_t>(rank);
  if (axis < -dimensions || axis >= dimensions) {
    throw invalid_argument(
        name, std::to_string(axis) + " is not one of the " + std::to_string(rank) + " dimensions");
  }
  return static_cast<std::size_t>(axis < 0 ? axis + dimensions : axis);
}

strided_dimensions merged(const extents& shape, const extents* strides, std::size_t operands) {
  strided_dimensions result;
  // Beside an extent of 0, the product of the others may overflow.
  if (std::find(shape.begin(), shape.end(), 0) != shape.end()) {
    result.count = 0;
    result.rank = 1;
    return result;
  }
  for (const auto extent : shape) result.count *= extent;
  // Sorted by insertion: by falling strides of the output, otherwise as they are.
  extents order;
  for (std::size_t d = 0; d < shape.size(); ++d) {
    if (shape[d] == 1) continue;
    order.push_back(static_cast<std::int64_t>(d));
    for (std::size_t i = order.size() - 1; i > 0; --i) {
      const auto previous = static_cast<std::size_t>(order[i - 1]);
      if (strides[0][previous] >= strides[0][static_cast<std::size_t>(order[i])]) break;
      std::swap(order[i - 1], order[i]);
    }
  }
  for (const auto axis : order) {
    const auto d = static_cast<std::size_t>(axis);
    bool merges = result.rank > 0;
    for (std::size_t k = 0; merges && k < operands; ++k) {
      merges = result.strides[k][result.rank - 1] == strides[k][d] * shape[d];
    }
    if (merges) {
      result.shape[result.rank - 1] *= shape[d];
    } else {
      result.shape[result.rank++] = shape[d];
    }
    for (std::size_t k = 0; k < operands; ++k) result.strides[k][result.rank - 1] = strides[k][d];
  }
  if (result.rank == 0) {
    result.shape[0] = 1;
    result.rank = 1;
  }
  return result;
}

}  // namespace sluice::operations
