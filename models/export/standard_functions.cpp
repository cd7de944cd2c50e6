// SPDX-License-Identifier: Apache-2.0
// Functions of one element and of pairs of elements.
#include "models/export/standard_node.hpp"

#include <algorithm>
#include <array>
#include <utility>

namespace sluice::models {

namespace {

template <class Function>
struct function_name {
  Function function;
  const char* op_type;
};
using u = unary_function;
using b = binary_function;

constexpr std::array unary_names{
    function_name<u>{u::abs, "Abs"},
    function_name<u>{u::acos, "Acos"},
    function_name<u>{u::acosh, "Acosh"},
    function_name<u>{u::asin, "Asin"},
    function_name<u>{u::asinh, "Asinh"},
    function_name<u>{u::atan, "Atan"},
    function_name<u>{u::atanh, "Atanh"},
    function_name<u>{u::bitwise_not, "BitwiseNot"},
    function_name<u>{u::ceil, "Ceil"},
    function_name<u>{u::cos, "Cos"},
    function_name<u>{u::cosh, "Cosh"},
    function_name<u>{u::erf, "Erf"},
    function_name<u>{u::exp, "Exp"},
    function_name<u>{u::floor, "Floor"},
    function_name<u>{u::gelu, "Gelu"},
    function_name<u>{u::hard_swish, "HardSwish"},
    function_name<u>{u::isinf, "IsInf"},
    function_name<u>{u::isnan, "IsNaN"},
    function_name<u>{u::log, "Log"},
    function_name<u>{u::logical_not, "Not"},
    function_name<u>{u::mish, "Mish"},
    function_name<u>{u::negate, "Neg"},
    function_name<u>{u::reciprocal, "Reciprocal"},
    function_name<u>{u::relu, "Relu"},
    function_name<u>{u::round, "Round"},
    function_name<u>{u::sigmoid, "Sigmoid"},
    function_name<u>{u::sign, "Sign"},
    function_name<u>{u::sin, "Sin"},
    function_name<u>{u::sinh, "Sinh"},
    function_name<u>{u::softplus, "Softplus"},
    function_name<u>{u::softsign, "Softsign"},
    function_name<u>{u::sqrt, "Sqrt"},
    function_name<u>{u::tan, "Tan"},
    function_name<u>{u::tanh, "Tanh"},
};

/// Functions with parameters, and the names of these in ONNX.
struct parameter_names {
  u function;
  const char* op_type;
  const char* alpha;
  const char* beta = nullptr;  ///< nullptr if there is none
};
constexpr std::array functions_with_parameters{
    parameter_names{u::celu, "Celu", "alpha"},
    parameter_names{u::elu, "Elu", "alpha"},
    parameter_names{u::hard_sigmoid, "HardSigmoid", "alpha", "beta"},
    parameter_names{u::leaky_relu, "LeakyRelu", "alpha"},
    parameter_names{u::selu, "Selu", "alpha", "gamma"},
    parameter_names{u::shrink, "Shrink", "lambd", "bias"},
    parameter_names{u::thresholded_relu, "ThresholdedRelu", "alpha"},
};

constexpr std::array binary_names{
    function_name<b>{b::add, "Add"},
    function_name<b>{b::bitwise_and, "BitwiseAnd"},
    function_name<b>{b::bitwise_or, "BitwiseOr"},
    function_name<b>{b::bitwise_xor, "BitwiseXor"},
    function_name<b>{b::divide, "Div"},
    function_name<b>{b::equal, "Equal"},
    function_name<b>{b::fmod, "Mod"},
    function_name<b>{b::greater, "Greater"},
    function_name<b>{b::greater_equal, "GreaterOrEqual"},
    function_name<b>{b::left_shift, "BitShift"},
    function_name<b>{b::less, "Less"},
    function_name<b>{b::less_equal, "LessOrEqual"},
    function_name<b>{b::logical_and, "And"},
    function_name<b>{b::logical_or, "Or"},
    function_name<b>{b::logical_xor, "Xor"},
    function_name<b>{b::maximum, "Max"},
    function_name<b>{b::minimum, "Min"},
    function_name<b>{b::multiply, "Mul"},
    function_name<b>{b::power, "Pow"},
    function_name<b>{b::prelu, "PRelu"},
    function_name<b>{b::remainder, "Mod"},
    function_name<b>{b::right_shift, "BitShift"},
    function_name<b>{b::subtract, "Sub"},
};

template <class List, class Function>
const auto* find_name(const List& list, const std::optional<Function>& function) {
  const auto found = std::find_if(list.begin(), list.end(),
                                  [&](const auto& entry) { return entry.function == function; });
  return found != list.end() ? &*found : nullptr;
}

/// A parameter that is stated as a real number.
std::optional<double> real_of(const std::optional<scalar>& number) {
  if (!number || number->non_finite() || *number != scalar(number->to<double>("number")))
    return std::nullopt;
  return number->to<double>("number");
}

bool write_with_parameters(standard_node& node, const unary& operation, std::size_t x) {
  const auto* const names = find_name(functions_with_parameters, operation.function);
  if (names == nullptr) return false;
  const auto alpha = real_of(operation.alpha);
  const auto beta = real_of(operation.beta);
  if (!alpha || !node.is_float(*alpha)) return false;
  if (names->beta != nullptr ? !beta || !node.is_float(*beta) : operation.beta.has_value())
    return false;
  node.set_float(names->alpha, *alpha);
  if (names->beta != nullptr) node.set_float(names->beta, *beta);
  return node.write(names->op_type, {x});
}

bool is_unsigned(element_type type) {
  return type == element_type::u8 || type == element_type::u16 || type == element_type::u32 ||
         type == element_type::u64;
}

bool write_unary(standard_node& node, const unary& operation) {
  constexpr std::size_t x = 0;
  if (operation.alpha || operation.beta) return write_with_parameters(node, operation, x);
  if (operation.function == u::gelu_tanh) {
    node.set_text("approximate", "tanh");
    return node.write("Gelu", {x});
  }
  // The import converts numbers of 8 bits before it looks for NaN.
  const bool needs_type = operation.function == u::isinf || operation.function == u::isnan ||
                          operation.function == u::logical_not;
  const auto* const spec = node.spec(x);
  if (needs_type && spec == nullptr) return false;
  if (operation.function == u::logical_not && spec->type != element_type::boolean) return false;
  const auto* const name = find_name(unary_names, operation.function);
  return name != nullptr && node.write(name->op_type, {x});
}

bool is_integer(element_type type) {
  return is_unsigned(type) || type == element_type::i8 || type == element_type::i16 ||
         type == element_type::i32 || type == element_type::i64;
}
/// Whether ONNX has the function of elements of these types.
bool takes_types(b function, const tensor_spec* x, const tensor_spec* y) {
  switch (function) {
    case b::power:
      // ONNX converts an exponent of another type.
      return x != nullptr && y != nullptr && x->type == y->type;
    case b::logical_and:
    case b::logical_or:
    case b::logical_xor:
      return x != nullptr && x->type == element_type::boolean;
    case b::left_shift:
    case b::right_shift:
      return x != nullptr && is_unsigned(x->type);
    case b::remainder:
      return x != nullptr && is_integer(x->type);
    default:
      return true;
  }
}

bool write_binary(standard_node& node, const binary& operation) {
  constexpr std::size_t left = 0;
  constexpr std::size_t right = 1;
  const auto* const name = find_name(binary_names, operation.function);
  if (name == nullptr || !node.has_input(left) || !node.has_input(right) ||
      !takes_types(*operation.function, node.spec(left), node.spec(right)))
    return false;
  if (operation.function == b::fmod) node.set("fmod", 1);
  if (operation.function == b::left_shift) node.set_text("direction", "LEFT");
  if (operation.function == b::right_shift) node.set_text("direction", "RIGHT");
  return node.write(name->op_type, {left, right});
}

}  // namespace

bool write_standard_function(standard_node& node) {
  if (const auto operation = node.operation<unary>()) return write_unary(node, *operation);
  if (const auto operation = node.operation<binary>()) return write_binary(node, *operation);
  return false;
}

}  // namespace sluice::models
