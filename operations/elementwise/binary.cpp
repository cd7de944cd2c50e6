// SPDX-License-Identifier: Apache-2.0
#include "operations/elementwise/element_sets.hpp"
#include "operations/elementwise/layouts.hpp"
#include "operations/elementwise/map_calls.hpp"
#include "operations/elementwise/map_functions.hpp"

#include <sluice/operations/binary.hpp>

#include <array>
#include <cstddef>
#include <string_view>
#include <utility>

namespace sluice {
namespace {

using operations::binary_call;
using operations::broadcast_strides;
using operations::element_set;

struct binary_properties {
  std::string_view name;
  std::string_view result;
  element_set operands = element_set::not_complex;
};
/// In the order of `binary_function`.
constexpr std::array<binary_properties, binary_function_count> binary_functions{{
    {"add", "a + b", element_set::all},
    {"subtract", "a - b", element_set::all},
    {"multiply", "a · b", element_set::all},
    {"divide", "a / b", element_set::all},
    {"remainder", "a - ⌊a / b⌋ · b"},
    {"fmod", "a - trunc(a / b) · b"},
    {"power", "a^b"},
    {"maximum", "max(a, b)"},
    {"minimum", "min(a, b)"},
    {"atan2", "the angle of (b, a)", element_set::real},
    {"prelu", "a; below 0: a · b"},
    {"equal", "a = b", element_set::all},
    {"not_equal", "a ≠ b", element_set::all},
    {"less", "a < b", element_set::not_complex},
    {"less_equal", "a ≤ b", element_set::not_complex},
    {"greater", "a > b", element_set::not_complex},
    {"greater_equal", "a ≥ b", element_set::not_complex},
    {"logical_and", "a and b", element_set::not_complex},
    {"logical_or", "a or b", element_set::not_complex},
    {"logical_xor", "either a or b", element_set::not_complex},
    {"bitwise_and", "bits of both", element_set::integer},
    {"bitwise_or", "bits of any", element_set::integer},
    {"bitwise_xor", "bits of one", element_set::integer},
    {"left_shift", "a · 2^b", element_set::integer},
    {"right_shift", "⌊a / 2^b⌋", element_set::integer},
}};

binary_call infer_binary(const binary& op, inference& inference) {
  const auto function = operations::require_function(op.function, binary_function::right_shift);
  const auto& properties = binary_functions[static_cast<std::size_t>(function)];
  const auto numbers = operations::require_number(inference, op.a, op.b);
  const auto& a = numbers.a ? numbers.spec : inference.require(op.a);
  const auto& b = numbers.b ? numbers.spec : inference.require(op.b);
  operations::require_element(inference, numbers.a ? op.b : op.a, a.type, properties.operands,
                              properties.name);
  operations::require_same_type(inference, op.b, b, a.type, "a");
  const auto shape = operations::common_shape(inference, op.b, a.shape, b.shape);
  const auto type = operations::is_predicate(function) ? element_type::boolean : a.type;
  if (type == a.type) {
    inference.allow_in_place(op.y, op.a);
    inference.allow_in_place(op.y, op.b);
  }
  const auto& y = inference.result(op.y, type, shape, operations::memory_order(shape, {&a, &b}));
  const auto a_strides = broadcast_strides(inference, op.a, a, shape);
  const auto b_strides = broadcast_strides(inference, op.b, b, shape);
  return {
      operations::make_layout<3>(shape, {y.strides, a_strides, b_strides}, {type, a.type, a.type}),
      function, numbers.value};
}

constexpr auto make_binary =
    operations::map_functions<binary, binary_call, infer_binary, &binary::a, &binary::b>;

}  // namespace

const operation_descriptor& descriptor_of(operation_type<binary>) {
  static const operations::map_descriptor<binary, binary_call> descriptor(make_binary("binary"));
  return descriptor;
}
const operation_descriptor& descriptor_of(const binary& operation) {
  static const auto descriptors = operations::map_descriptors<binary, binary_call>(
      make_binary, binary_functions, std::make_index_sequence<binary_function_count>());
  return operations::descriptor_at(descriptors, operation.function,
                                   descriptor_of(operation_type<binary>()));
}

std::vector<operation_description> operations::describe_binary() {
  std::vector<operation_description> all;
  for (std::size_t i = 0; i < binary_functions.size(); ++i) {
    all.push_back({&descriptor_of(binary{.function = static_cast<binary_function>(i)}),
                   binary_functions[i].result, to_string(binary_functions[i].operands),
                   "any strides"});
  }
  return all;
}

}  // namespace sluice
