// SPDX-License-Identifier: Apache-2.0
// Functions of one element and of pairs of elements.
#include "models/element_types.hpp"
#include "models/host_numbers.hpp"
#include "models/operator_table.hpp"

#include <sluice/operations/binary.hpp>
#include <sluice/operations/elementwise.hpp>
#include <sluice/operations/unary.hpp>

#include <array>
#include <limits>

namespace sluice::models {

namespace {

template <unary_function Function>
results import_unary(const node& n) {
  return n.add(unary{.function = Function, .x = n.input(0)});
}
template <binary_function Function>
results import_binary(const node& n) {
  return n.add(binary{.function = Function, .a = n.input(0), .b = n.input(1)});
}
/// Of any number of inputs, from left to right.
template <binary_function Function>
results import_chain(const node& n) {
  const auto inputs = n.all_inputs();
  auto y = inputs.front();
  for (std::size_t i = 1; i < inputs.size(); ++i) {
    y = n.add(binary{.function = Function, .a = y, .b = inputs[i]});
  }
  return y;
}

results import_mean(const node& n) {
  const auto sum = import_chain<binary_function::add>(n).front();
  const auto count = n.number(sum.type(), static_cast<double>(n.input_count()));
  return n.add(divide(sum, count));
}
results import_mod(const node& n) {
  const auto function = n.attribute("fmod", std::int64_t{0}) != 0 ? binary_function::fmod
                                                                  : binary_function::remainder;
  return n.add(binary{.function = function, .a = n.input(0), .b = n.input(1)});
}
/// Whether a power is a square, whose product takes a fraction of the time.
bool is_square(const value& base, const value& exponent) {
  return is_real(base.type()) && exponent.known() && exponent.size() == 1 &&
         exponent.rank() <= base.rank() && reals_in(exponent.known()).front() == 2;
}
/// Base and exponent may have different types, and the result has that of the base.
results import_power(const node& n) {
  const auto& base = n.input(0);
  const auto& exponent = n.input(1);
  if (is_square(base, exponent)) return n.add(multiply(base, base));
  if (base.type() == exponent.type()) return n.add(power(base, exponent));
  const auto computed = is_real(base.type())       ? base.type()
                        : is_real(exponent.type()) ? element_type::f64
                                                   : element_type::i64;
  return n.cast_to(n.add(power(n.cast_to(base, computed), n.cast_to(exponent, computed))),
                   base.type());
}
results import_shift(const node& n) {
  const auto direction = n.attribute("direction", "");
  if (direction == "LEFT") return n.add(left_shift(n.input(0), n.input(1)));
  if (direction == "RIGHT") return n.add(right_shift(n.input(0), n.input(1)));
  throw n.refusal("direction", "is '" + direction + "' instead of LEFT or RIGHT");
}
/// The operand of a predicate: numbers of 8 bits as f32, which holds all of them.
value predicate_operand(const node& n) {
  const auto& x = n.input(0);
  const bool is_float8 = x.type() == element_type::e4m3 || x.type() == element_type::e5m2;
  return is_float8 ? n.cast_to(x, element_type::f32) : x;
}
results import_is_nan(const node& n) {
  return n.add(isnan(predicate_operand(n)));
}
results import_is_infinite(const node& n) {
  const bool positive = n.attribute("detect_positive", std::int64_t{1}) != 0;
  const bool negative = n.attribute("detect_negative", std::int64_t{1}) != 0;
  const auto x = predicate_operand(n);
  if (positive && negative) return n.add(isinf(x));
  const auto infinity = std::numeric_limits<double>::infinity();
  // Without either sign, nothing is larger than infinity.
  if (!positive && !negative) return n.add(greater(x, n.number(x.type(), infinity)));
  return n.add(equal(x, n.number(x.type(), positive ? infinity : -infinity)));
}
results import_where(const node& n) {
  return n.add(where{.condition = n.input(0), .a = n.input(1), .b = n.input(2)});
}

constexpr std::array elementwise_entries{
    operator_entry{"Abs", import_unary<unary_function::abs>},
    operator_entry{"Acos", import_unary<unary_function::acos>},
    operator_entry{"Acosh", import_unary<unary_function::acosh>},
    operator_entry{"Add", import_binary<binary_function::add>},
    operator_entry{"And", import_binary<binary_function::logical_and>},
    operator_entry{"Asin", import_unary<unary_function::asin>},
    operator_entry{"Asinh", import_unary<unary_function::asinh>},
    operator_entry{"Atan", import_unary<unary_function::atan>},
    operator_entry{"Atanh", import_unary<unary_function::atanh>},
    operator_entry{"BitShift", import_shift},
    operator_entry{"BitwiseAnd", import_binary<binary_function::bitwise_and>},
    operator_entry{"BitwiseNot", import_unary<unary_function::bitwise_not>},
    operator_entry{"BitwiseOr", import_binary<binary_function::bitwise_or>},
    operator_entry{"BitwiseXor", import_binary<binary_function::bitwise_xor>},
    operator_entry{"Ceil", import_unary<unary_function::ceil>},
    operator_entry{"Cos", import_unary<unary_function::cos>},
    operator_entry{"Cosh", import_unary<unary_function::cosh>},
    operator_entry{"Div", import_binary<binary_function::divide>},
    operator_entry{"Equal", import_binary<binary_function::equal>},
    operator_entry{"Erf", import_unary<unary_function::erf>},
    operator_entry{"Exp", import_unary<unary_function::exp>},
    operator_entry{"Floor", import_unary<unary_function::floor>},
    operator_entry{"Greater", import_binary<binary_function::greater>},
    operator_entry{"GreaterOrEqual", import_binary<binary_function::greater_equal>},
    operator_entry{"IsInf", import_is_infinite},
    operator_entry{"IsNaN", import_is_nan},
    operator_entry{"Less", import_binary<binary_function::less>},
    operator_entry{"LessOrEqual", import_binary<binary_function::less_equal>},
    operator_entry{"Log", import_unary<unary_function::log>},
    operator_entry{"Max", import_chain<binary_function::maximum>},
    operator_entry{"Mean", import_mean},
    operator_entry{"Min", import_chain<binary_function::minimum>},
    operator_entry{"Mod", import_mod},
    operator_entry{"Mul", import_binary<binary_function::multiply>},
    operator_entry{"Neg", import_unary<unary_function::negate>},
    operator_entry{"Not", import_unary<unary_function::logical_not>},
    operator_entry{"Or", import_binary<binary_function::logical_or>},
    operator_entry{"PRelu", import_binary<binary_function::prelu>},
    operator_entry{"Pow", import_power},
    operator_entry{"Reciprocal", import_unary<unary_function::reciprocal>},
    operator_entry{"Round", import_unary<unary_function::round>},
    operator_entry{"Sign", import_unary<unary_function::sign>},
    operator_entry{"Sin", import_unary<unary_function::sin>},
    operator_entry{"Sinh", import_unary<unary_function::sinh>},
    operator_entry{"Sqrt", import_unary<unary_function::sqrt>},
    operator_entry{"Sub", import_binary<binary_function::subtract>},
    operator_entry{"Sum", import_chain<binary_function::add>},
    operator_entry{"Tan", import_unary<unary_function::tan>},
    operator_entry{"Where", import_where},
    operator_entry{"Xor", import_binary<binary_function::logical_xor>},
};

}  // namespace

std::span<const operator_entry> elementwise_operators() {
  return elementwise_entries;
}

}  // namespace sluice::models
