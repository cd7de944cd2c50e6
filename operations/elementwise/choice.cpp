// SPDX-License-Identifier: Apache-2.0
#include "operations/core/element_value.hpp"
#include "operations/core/enumerators.hpp"
#include "operations/core/rows.hpp"
#include "operations/elementwise/choice_call.hpp"
#include "operations/elementwise/indices.hpp"
#include "operations/elementwise/layouts.hpp"
#include "operations/elementwise/map_functions.hpp"

#include <sluice/operations/movement.hpp>

#include <algorithm>
#include <cstring>
#include <string>

namespace sluice {
namespace {

using operations::choice_call;
using operations::choice_rule;

extents zeros_like(extents shape) {
  std::fill_n(shape.data(), shape.size(), 0);
  return shape;
}
/// The coordinate j - i of matrices in the last two dimensions.
extents diagonals(const extents& shape) {
  auto strides = zeros_like(shape);
  strides[shape.size() - 1] = 1;
  strides[shape.size() - 2] = -1;
  return strides;
}
void set_value(unsigned char (&target)[16], const scalar& value, element_type type,
               std::string_view name) {
  std::memcpy(target, operations::element_value(value, type, name).data(), sizeof target);
}
/// The type of a result without inputs of its type.
element_type result_type(const std::optional<element_type>& type, const tensor_spec* y) {
  operations::require_type("type", type);
  return type ? *type : y != nullptr ? y->type : element_type::f32;
}

choice_call infer_triangle(const triangle& op, inference& inference) {
  const auto& x = inference.require(op.x);
  if (x.rank() < 2) {
    throw inference.refusal(op.x, "has the shape ", x.shape, ", which is no matrix");
  }
  inference.couple_from(op.x, x.rank() - 2);
  inference.allow_in_place(op.y, op.x);
  const auto& y = inference.result(op.y, x.type, x.shape, operations::memory_order(x));
  choice_call call{operations::make_layout<3>(x.shape, {y.strides, x.strides, diagonals(x.shape)},
                                              {x.type, x.type, x.type})};
  call.rule = op.upper ? choice_rule::at_least : choice_rule::at_most;
  call.bound = op.diagonal;
  return call;
}

choice_call infer_eye(const eye& op, inference& inference) {
  const auto* const output_spec = inference.given(op.y);
  const auto type = result_type(op.type, output_spec);
  const auto shape = operations::stated_shape(op.shape, output_spec, type);
  if (shape.size() < 2) {
    throw invalid_argument(op.shape ? "shape" : "y", to_string(shape) + " is no matrix");
  }
  const auto& y = inference.result(op.y, type, shape);
  choice_call call{operations::make_layout<3>(
      shape, {y.strides, zeros_like(shape), diagonals(shape)}, {type, type, type})};
  call.bound = op.diagonal;
  set_value(call.on, 1, type, "type");
  return call;
}

choice_call infer_one_hot(const one_hot& op, inference& inference) {
  const auto& indices = operations::require_indices(inference, op.indices);
  const auto type = result_type(op.type, inference.given(op.y));
  if (indices.rank() == extents::max_rank) {
    throw inference.refusal(op.indices, "has the shape ", indices.shape,
                            ", so the result would have ", indices.rank() + 1, " dimensions");
  }
  const auto axis = operations::dimension_of("axis", op.axis, indices.rank() + 1);
  if (op.depth == one_hot::not_given) throw invalid_argument("depth", "is not given");
  if (op.depth < 0) throw invalid_argument("depth", std::to_string(op.depth) + " is negative");
  extents shape;
  extents index_strides;
  for (std::size_t d = 0; d <= indices.rank(); ++d) {
    const auto source = d < axis ? d : d - 1;
    shape.push_back(d == axis ? op.depth : indices.shape[source]);
    index_strides.push_back(d == axis ? 0 : indices.strides[source]);
  }
  auto coordinate = zeros_like(shape);
  coordinate[axis] = 1;
  const auto& y = inference.result(op.y, type, shape);
  choice_call call{operations::make_layout<3>(shape, {y.strides, index_strides, coordinate},
                                              {type, indices.type, type})};
  call.rule = choice_rule::equal_to_index;
  call.bound = op.depth;
  set_value(call.on, op.on, type, "on");
  set_value(call.off, op.off, type, "off");
  return call;
}

}  // namespace

const operation_descriptor& descriptor_of(operation_type<triangle>) {
  return operations::descriptor_of_map<triangle, choice_call, infer_triangle, &triangle::x>(
      "triangle");
}
const operation_descriptor& descriptor_of(operation_type<eye>) {
  return operations::descriptor_of_map<eye, choice_call, infer_eye>("eye");
}
const operation_descriptor& descriptor_of(operation_type<one_hot>) {
  return operations::descriptor_of_map<one_hot, choice_call, infer_one_hot, &one_hot::indices>(
      "one_hot");
}

}  // namespace sluice
