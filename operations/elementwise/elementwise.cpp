// SPDX-License-Identifier: Apache-2.0
#include "operations/core/enumerators.hpp"
#include "operations/elementwise/layouts.hpp"
#include "operations/elementwise/map_calls.hpp"
#include "operations/elementwise/map_functions.hpp"

#include <sluice/operations/elementwise.hpp>

#include <array>
#include <string>
#include <type_traits>

namespace sluice {
namespace {

using operations::affine_call;
using operations::broadcast_strides;
using operations::cast_call;
using operations::copy_call;
using operations::descriptor_of_map;
using operations::is_complex;
using operations::is_float8;
using operations::is_floating_point;
using operations::make_layout;
using operations::memory_order;
using operations::where_call;

/// The type of a result: that of a parameter, of the output or a default.
element_type chosen_type(const std::optional<element_type>& parameter, const tensor_spec* y,
                         element_type otherwise) {
  return parameter ? *parameter : y != nullptr ? y->type : otherwise;
}

cast_call infer_cast(const cast& op, inference& inference) {
  const auto& x = inference.require(op.x);
  const auto* const output_spec = inference.given(op.y);
  operations::require_type("type", op.type);
  if (!op.type && output_spec == nullptr) throw invalid_argument("type", "is not given");
  const auto type = chosen_type(op.type, output_spec, x.type);
  if (is_complex(x.type) && !is_complex(type) && type != element_type::boolean) {
    throw invalid_argument(op.type ? "type" : "y",
                           "is " + std::string(to_string(type)) + ", but x is complex");
  }
  inference.allow_in_place(op.y, op.x);
  const auto& y = inference.result(op.y, type, x.shape, memory_order(x));
  // Other types have no such choice, and their kernels are the same.
  return {make_layout<2>(x.shape, {y.strides, x.strides}, {type, x.type}),
          op.saturate || !is_float8(type)};
}

copy_call infer_copy(const strided_copy& op, inference& inference) {
  const auto& x = inference.require(op.x);
  const auto& y = inference.result(op.y, x.type, x.shape);
  return {make_layout<2>(x.shape, {y.strides, x.strides}, {x.type, x.type})};
}

/// The strides of scale or bias along the dimensions of x. `axis` is the dimension of the channels.
extents channel_strides(const affine& op, const inference& inference, const operand& operand,
                        const tensor_spec& x) {
  const auto* const s = inference.given(operand);
  extents strides = x.shape;
  for (std::size_t d = 0; d < strides.size(); ++d) strides[d] = 0;
  if (s == nullptr) return strides;
  if (is_complex(s->type)) {
    throw inference.refusal(operand, "is of type ", s->type, ", but must be real");
  }
  operations::require_arithmetic(inference, operand, s->type);
  if (!op.axis) return broadcast_strides(inference, operand, *s, x.shape);
  const auto axis = operations::dimension_of("axis", *op.axis, x.rank());
  if (s->rank() != 1 || s->shape[0] != x.shape[axis]) {
    throw inference.refusal(operand, "has the shape ", s->shape, ", but x has ", x.shape[axis],
                            " channels");
  }
  strides[axis] = s->strides[0];
  return strides;
}

/// A number that stands for a tensor that is not given.
double number(const std::optional<scalar>& value, double otherwise, const char* name,
              const inference& inference, const operand& replaced, bool is_double) {
  if (!value) return otherwise;
  if (inference.given(replaced) != nullptr) {
    throw invalid_argument(name, "is given beside " + std::string(inference.name(replaced)));
  }
  return is_double ? value->to<double>(name) : static_cast<double>(value->to<float>(name));
}

affine_call infer_affine(const affine& op, inference& inference) {
  const auto& x = inference.require(op.x);
  if (is_complex(x.type)) {
    throw inference.refusal(op.x, "is of type ", x.type, ", but must be real");
  }
  operations::require_arithmetic(inference, op.x, x.type);
  operations::require_type("type", op.type);
  const auto* const output_spec = inference.given(op.y);
  const auto type =
      chosen_type(op.type, output_spec, is_floating_point(x.type) ? x.type : element_type::f32);
  if (!is_floating_point(type)) {
    throw invalid_argument(op.type ? "type" : "y", "is " + std::string(to_string(type)) +
                                                       ", but the result is a floating-point "
                                                       "number");
  }
  if (op.axis) (void)operations::dimension_of("axis", *op.axis, x.rank());
  const auto scale = channel_strides(op, inference, op.scale, x);
  const auto bias = channel_strides(op, inference, op.bias, x);
  for (const auto* operand : {&op.x, &op.scale, &op.bias}) inference.allow_in_place(op.y, *operand);
  const auto& y = inference.result(op.y, type, x.shape, memory_order(x));
  const auto type_of = [&](const operand& operand) {
    const auto* const s = inference.given(operand);
    return s != nullptr ? s->type : element_type::f32;
  };
  affine_call call{make_layout<4>(x.shape, {y.strides, x.strides, scale, bias},
                                  {type, x.type, type_of(op.scale), type_of(op.bias)})};
  call.factor = number(op.factor, 1, "factor", inference, op.scale, call.is_double());
  call.offset = number(op.offset, 0, "offset", inference, op.bias, call.is_double());
  return call;
}

where_call infer_where(const where& op, inference& inference) {
  const auto& condition = inference.require(op.condition);
  const auto numbers = operations::require_number(inference, op.a, op.b);
  const auto& a = numbers.a ? numbers.spec : inference.require(op.a);
  const auto& b = numbers.b ? numbers.spec : inference.require(op.b);
  if (condition.type != element_type::boolean) {
    throw inference.refusal(op.condition, "is of type ", condition.type,
                            ", but must be boolean; not_equal(x, 0) converts");
  }
  operations::require_same_type(inference, op.b, b, a.type, "a");
  auto shape = operations::common_shape(inference, op.b, a.shape, b.shape);
  shape = operations::common_shape(inference, op.condition, shape, condition.shape);
  inference.allow_in_place(op.y, op.a);
  inference.allow_in_place(op.y, op.b);
  if (a.type == element_type::boolean) inference.allow_in_place(op.y, op.condition);
  const auto& y = inference.result(op.y, a.type, shape, memory_order(shape, {&condition, &a, &b}));
  return {make_layout<4>(shape,
                         {y.strides, broadcast_strides(inference, op.condition, condition, shape),
                          broadcast_strides(inference, op.a, a, shape),
                          broadcast_strides(inference, op.b, b, shape)},
                         {a.type, condition.type, a.type, a.type}),
          numbers.value};
}

}  // namespace

const operation_descriptor& descriptor_of(operation_type<cast>) {
  return descriptor_of_map<cast, cast_call, infer_cast, &cast::x>("cast");
}
const operation_descriptor& descriptor_of(operation_type<strided_copy>) {
  return descriptor_of_map<strided_copy, copy_call, infer_copy, &strided_copy::x>("strided_copy");
}
const operation_descriptor& descriptor_of(operation_type<affine>) {
  return descriptor_of_map<affine, affine_call, infer_affine, &affine::x, &affine::scale,
                           &affine::bias>("affine");
}
const operation_descriptor& descriptor_of(operation_type<where>) {
  return descriptor_of_map<where, where_call, infer_where, &where::condition, &where::a, &where::b>(
      "where");
}

}  // namespace sluice
