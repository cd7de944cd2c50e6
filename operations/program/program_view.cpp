// SPDX-License-Identifier: Apache-2.0
#include "operations/program/program_view.hpp"

#include <sluice/runtime/error.hpp>

#include <cstddef>
#include <optional>

namespace sluice::detail {
namespace {

tensor_layout unsqueezed(const tensor_layout& layout, std::size_t axis) {
  if (axis > layout.rank() || layout.rank() == extents::max_rank) {
    throw invalid_argument("unsqueeze", "there is no place " + std::to_string(axis) +
                                            " for a dimension in the shape " +
                                            to_string(layout.shape()));
  }
  extents shape;
  extents strides;
  for (std::size_t d = 0; d <= layout.rank(); ++d) {
    if (d == axis) {
      shape.push_back(1);
      strides.push_back(1);
    }
    if (d == layout.rank()) break;
    shape.push_back(layout.shape()[d]);
    strides.push_back(layout.strides()[d]);
  }
  return {layout.type(), shape, strides, layout.offset()};
}

tensor_layout required(const tensor_layout& layout, element_type type, const extents& shape) {
  if (layout.type() == type && layout.shape() == shape) return layout;
  throw error(errc::invalid_argument,
              "has the type " + std::string(to_string(layout.type())) + " and the shape " +
                  to_string(layout.shape()) + ", but the program is for " +
                  std::string(to_string(type)) + " and " + to_string(shape));
}

std::optional<std::int64_t> last_of_slice(const extents& numbers) {
  return numbers.size() > 3 ? std::optional(numbers[3]) : std::nullopt;
}

}  // namespace

tensor_layout program_view::operator()(const tensor_layout& layout) const {
  const auto axis = [&] {
    return static_cast<std::size_t>(numbers[0]);
  };
  switch (what) {
    case function::reshape:
      return layout.reshape(numbers);
    case function::permute:
      return layout.permute(numbers);
    case function::transposed:
      break;
    case function::slice:
      return layout.slice(axis(), numbers[1], last_of_slice(numbers), numbers[2]);
    case function::select:
      return layout.select(axis(), numbers[1]);
    case function::unsqueeze:
      return unsqueezed(layout, axis());
    case function::broadcast_to:
      return layout.broadcast_to(numbers);
    case function::reinterpret:
      return layout.reinterpret(type);
    case function::require:
      return required(layout, type, numbers);
  }
  return layout.transposed();
}

std::string program_view::text() const {
  const auto number = [&](std::size_t i) {
    return std::to_string(numbers[i]);
  };
  switch (what) {
    case function::reshape:
      return "reshape(" + to_string(numbers) + ")";
    case function::permute:
      return "permute(" + to_string(numbers) + ")";
    case function::transposed:
      break;
    case function::slice:
      return "slice(" + number(0) + ", " + number(1) + ", " +
             (last_of_slice(numbers) ? number(3) : "end") + ", " + number(2) + ")";
    case function::select:
      return "select(" + number(0) + ", " + number(1) + ")";
    case function::unsqueeze:
      return "unsqueeze(" + number(0) + ")";
    case function::broadcast_to:
      return "broadcast_to(" + to_string(numbers) + ")";
    case function::reinterpret:
      return "reinterpret(" + std::string(to_string(type)) + ")";
    case function::require:
      return {};
  }
  return "transposed()";
}

}  // namespace sluice::detail
