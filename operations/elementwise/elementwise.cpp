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
using operations::binary_call;
using operations::broadcast_strides;
using operations::cast_call;
using operations::copy_call;
using operations::is_complex;
using operations::is_floating_point;
using operations::make_layout;
using operations::map_row;

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
  const auto& y = inference.result(op.y, type, x.shape);
  return {make_layout<2>(x.shape, {y.strides, x.strides}, {type, x.type})};
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
  const auto& y = inference.result(op.y, type, x.shape);
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

/// The common shape of two operands, as in NumPy.
extents common_shape(const inference& inference, const operand& b_operand, const tensor_spec& a,
                     const tensor_spec& b) {
  const auto& longer = a.rank() >= b.rank() ? a.shape : b.shape;
  const auto& shorter = a.rank() >= b.rank() ? b.shape : a.shape;
  extents shape = longer;
  for (std::size_t i = 0; i < shorter.size(); ++i) {
    auto& extent = shape[longer.size() - shorter.size() + i];
    if (extent == 1) {
      extent = shorter[i];
    } else if (shorter[i] != 1 && shorter[i] != extent) {
      throw inference.refusal(b_operand, "has the shape ", b.shape,
                              ", which cannot be broadcast with ", a.shape);
    }
  }
  return shape;
}

template <class Operation, class... Functors>
constexpr std::size_t functor_place(operations::functor_list<Functors...>) {
  return detail::place_in<Operation>(operation_list<typename Functors::operation...>{});
}
template <class Operation, class... Functors>
constexpr bool takes_complex(operations::functor_list<Functors...>) {
  return ((std::is_same_v<Operation, typename Functors::operation> && Functors::takes_complex) ||
          ...);
}

template <class Operation, class... Functors>
constexpr const char* functor_name(operations::functor_list<Functors...>) {
  const char* name = nullptr;
  (void)((std::is_same_v<Operation, typename Functors::operation> && (name = Functors::name)) ||
         ...);
  return name;
}

template <class Operation>
binary_call infer_binary(const Operation& op, inference& inference) {
  constexpr auto functor = functor_place<Operation>(operations::binary_functors{});
  static_assert(functor < operations::count_of(operations::binary_functors{}),
                "the operation has no functor in binary_functors");
  const auto& a = inference.require(op.a);
  const auto& b = inference.require(op.b);
  if (is_complex(a.type) && !takes_complex<Operation>(operations::binary_functors{})) {
    throw inference.refusal(op.a, "is of type ", a.type, ", but must be real");
  }
  operations::require_same_type(inference, op.b, b, a.type, "a");
  const auto shape = common_shape(inference, op.b, a, b);
  inference.allow_in_place(op.y, op.a);
  inference.allow_in_place(op.y, op.b);
  const auto& y = inference.result(op.y, a.type, shape);
  const auto a_strides = broadcast_strides(inference, op.a, a, shape);
  const auto b_strides = broadcast_strides(inference, op.b, b, shape);
  return {make_layout<3>(shape, {y.strides, a_strides, b_strides}, {a.type, a.type, a.type}),
          static_cast<std::int64_t>(functor)};
}

template <class... Operations>
const operation_descriptor& binary_row_at(std::size_t place, operation_list<Operations...>) {
  const operation_descriptor* row = nullptr;
  std::size_t i = 0;
  const auto make = [&]<class Operation>(Operation*) {
    row = &map_row<Operation, binary_call, infer_binary<Operation>, &Operation::a, &Operation::b>(
        functor_name<Operation>(operations::binary_functors{}));
    return true;
  };
  (void)((i++ == place && make(static_cast<Operations*>(nullptr))) || ...);
  return *row;
}

}  // namespace

const operation_descriptor& descriptor_of(operation_type<cast>) {
  return map_row<cast, cast_call, infer_cast, &cast::x>("cast");
}
const operation_descriptor& descriptor_of(operation_type<strided_copy>) {
  return map_row<strided_copy, copy_call, infer_copy, &strided_copy::x>("strided_copy");
}
const operation_descriptor& descriptor_of(operation_type<affine>) {
  return map_row<affine, affine_call, infer_affine, &affine::x, &affine::scale, &affine::bias>(
      "affine");
}
const operation_descriptor& detail::binary_row(std::size_t place) {
  return binary_row_at(place, binary_operations{});
}

}  // namespace sluice
