// SPDX-License-Identifier: Apache-2.0
#include "models/value_view.hpp"

#include <sluice/runtime/error.hpp>
#include <sluice/runtime/tensor_layout.hpp>

#include <algorithm>
#include <cstddef>

namespace sluice::models {
namespace {

/// A shape with one more dimension of extent 1.
extents with_dimension(const extents& shape, std::size_t axis) {
  extents result;
  for (std::size_t i = 0; i <= shape.size(); ++i) {
    if (i == axis) result.push_back(1);
    if (i < shape.size()) result.push_back(shape[i]);
  }
  return result;
}

}  // namespace

program_value value_view::apply(const program_value& x) const {
  switch (what) {
    case function::reshape:
      return x.reshape(numbers);
    case function::permute:
      return x.permute(numbers);
    case function::transposed:
      break;
    case function::slice:
      return x.slice(static_cast<std::size_t>(numbers[0]), numbers[1], numbers[2], numbers[3]);
    case function::select:
      return x.select(static_cast<std::size_t>(numbers[0]), numbers[1]);
    case function::unsqueeze:
      return x.unsqueeze(static_cast<std::size_t>(numbers[0]));
    case function::broadcast_to:
      return x.broadcast_to(numbers);
    case function::reinterpret:
      return x.reinterpret(type);
  }
  return x.transposed();
}

std::optional<tensor_spec> value_view::spec_of(const tensor_spec& x) const {
  const tensor_layout layout(x.type, x.shape, x.strides);
  try {
    tensor_layout viewed;
    switch (what) {
      case function::reshape:
        viewed = layout.reshape(numbers);
        break;
      case function::permute:
        viewed = layout.permute(numbers);
        break;
      case function::transposed:
        viewed = layout.transposed();
        break;
      case function::slice:
        viewed =
            layout.slice(static_cast<std::size_t>(numbers[0]), numbers[1], numbers[2], numbers[3]);
        break;
      case function::unsqueeze:
        viewed = layout.reshape(with_dimension(x.shape, static_cast<std::size_t>(numbers[0])));
        break;
      default:
        return std::nullopt;
    }
    const auto offset = viewed.offset();
    const auto alignment = offset == 0 ? x.alignment : std::min(x.alignment, offset & -offset);
    return tensor_spec{viewed.type(), viewed.shape(), viewed.strides(), alignment};
  } catch (const error&) {
    return std::nullopt;
  }
}

}  // namespace sluice::models
