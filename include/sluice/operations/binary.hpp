// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sluice/export.hpp>
#include <sluice/operations/element_functions.hpp>
#include <sluice/operations/members.hpp>
#include <sluice/operations/operation_type.hpp>

#include <optional>
#include <tuple>
#include <utility>

namespace sluice {

/// A function of each pair of elements of A and B.
///
///     add(x, bias)                                                         // is short for
///     binary{.function = binary_function::add, .a = x, .b = bias}
///     multiply(x, 0.5)                                                     // or a number
///
/// `binary_function` lists the functions with their element types. A and B are of one type; `cast`
/// converts. They are broadcast to one shape as in NumPy: dimensions are aligned at the last one,
/// and those that are missing or have extent 1 are repeated. One of them may be a number, which
/// stands for a tensor of one element of the type of the other one: an integer must be exact in it,
/// and a real number is rounded to a floating-point type. Y has the type of A, or is boolean if the
/// result of the function is. All operands have any strides. f16 and bf16 are computed in f32.
/// Every result is rounded once, but for `power` and `atan2`, whose error is at most 8 units in the
/// last place, and for quotients of complex numbers. Y may be the same view as A, B or both if it
/// has their type; otherwise it shares no bytes with them. The result is Y, a new tensor without
/// gaps if it is not given. Its dimensions lie in the order of those of the first operand that has
/// its shape and no repeated elements (strides of 0), or in row-major order if there is none.
struct binary {
  std::optional<binary_function> function{};  ///< required
  operand_or_number a{};                      ///< A
  operand_or_number b{};                      ///< B, of the type of A
  operand y{};                                ///< Y, of the common shape

  /// All members, in order.
  template <class = void>
  static constexpr auto members() {
    return std::make_tuple(parameter("function", &binary::function), input("a", &binary::a),
                           input("b", &binary::b), output("y", &binary::y));
  }
};

/// A function of each pair of elements of A and B, into Y if it is given; see `binary_function`.
///@{
[[nodiscard]] inline binary add(operand_or_number a, operand_or_number b, operand y = {}) noexcept {
  return {binary_function::add, std::move(a), std::move(b), std::move(y)};
}
[[nodiscard]] inline binary subtract(operand_or_number a, operand_or_number b,
                                     operand y = {}) noexcept {
  return {binary_function::subtract, std::move(a), std::move(b), std::move(y)};
}
[[nodiscard]] inline binary multiply(operand_or_number a, operand_or_number b,
                                     operand y = {}) noexcept {
  return {binary_function::multiply, std::move(a), std::move(b), std::move(y)};
}
[[nodiscard]] inline binary divide(operand_or_number a, operand_or_number b,
                                   operand y = {}) noexcept {
  return {binary_function::divide, std::move(a), std::move(b), std::move(y)};
}
[[nodiscard]] inline binary remainder(operand_or_number a, operand_or_number b,
                                      operand y = {}) noexcept {
  return {binary_function::remainder, std::move(a), std::move(b), std::move(y)};
}
[[nodiscard]] inline binary fmod(operand_or_number a, operand_or_number b,
                                 operand y = {}) noexcept {
  return {binary_function::fmod, std::move(a), std::move(b), std::move(y)};
}
[[nodiscard]] inline binary power(operand_or_number a, operand_or_number b,
                                  operand y = {}) noexcept {
  return {binary_function::power, std::move(a), std::move(b), std::move(y)};
}
[[nodiscard]] inline binary maximum(operand_or_number a, operand_or_number b,
                                    operand y = {}) noexcept {
  return {binary_function::maximum, std::move(a), std::move(b), std::move(y)};
}
[[nodiscard]] inline binary minimum(operand_or_number a, operand_or_number b,
                                    operand y = {}) noexcept {
  return {binary_function::minimum, std::move(a), std::move(b), std::move(y)};
}
[[nodiscard]] inline binary atan2(operand_or_number a, operand_or_number b,
                                  operand y = {}) noexcept {
  return {binary_function::atan2, std::move(a), std::move(b), std::move(y)};
}
[[nodiscard]] inline binary prelu(operand_or_number a, operand_or_number b,
                                  operand y = {}) noexcept {
  return {binary_function::prelu, std::move(a), std::move(b), std::move(y)};
}
[[nodiscard]] inline binary equal(operand_or_number a, operand_or_number b,
                                  operand y = {}) noexcept {
  return {binary_function::equal, std::move(a), std::move(b), std::move(y)};
}
[[nodiscard]] inline binary not_equal(operand_or_number a, operand_or_number b,
                                      operand y = {}) noexcept {
  return {binary_function::not_equal, std::move(a), std::move(b), std::move(y)};
}
[[nodiscard]] inline binary less(operand_or_number a, operand_or_number b,
                                 operand y = {}) noexcept {
  return {binary_function::less, std::move(a), std::move(b), std::move(y)};
}
[[nodiscard]] inline binary less_equal(operand_or_number a, operand_or_number b,
                                       operand y = {}) noexcept {
  return {binary_function::less_equal, std::move(a), std::move(b), std::move(y)};
}
[[nodiscard]] inline binary greater(operand_or_number a, operand_or_number b,
                                    operand y = {}) noexcept {
  return {binary_function::greater, std::move(a), std::move(b), std::move(y)};
}
[[nodiscard]] inline binary greater_equal(operand_or_number a, operand_or_number b,
                                          operand y = {}) noexcept {
  return {binary_function::greater_equal, std::move(a), std::move(b), std::move(y)};
}
[[nodiscard]] inline binary logical_and(operand_or_number a, operand_or_number b,
                                        operand y = {}) noexcept {
  return {binary_function::logical_and, std::move(a), std::move(b), std::move(y)};
}
[[nodiscard]] inline binary logical_or(operand_or_number a, operand_or_number b,
                                       operand y = {}) noexcept {
  return {binary_function::logical_or, std::move(a), std::move(b), std::move(y)};
}
[[nodiscard]] inline binary logical_xor(operand_or_number a, operand_or_number b,
                                        operand y = {}) noexcept {
  return {binary_function::logical_xor, std::move(a), std::move(b), std::move(y)};
}
[[nodiscard]] inline binary bitwise_and(operand_or_number a, operand_or_number b,
                                        operand y = {}) noexcept {
  return {binary_function::bitwise_and, std::move(a), std::move(b), std::move(y)};
}
[[nodiscard]] inline binary bitwise_or(operand_or_number a, operand_or_number b,
                                       operand y = {}) noexcept {
  return {binary_function::bitwise_or, std::move(a), std::move(b), std::move(y)};
}
[[nodiscard]] inline binary bitwise_xor(operand_or_number a, operand_or_number b,
                                        operand y = {}) noexcept {
  return {binary_function::bitwise_xor, std::move(a), std::move(b), std::move(y)};
}
[[nodiscard]] inline binary left_shift(operand_or_number a, operand_or_number b,
                                       operand y = {}) noexcept {
  return {binary_function::left_shift, std::move(a), std::move(b), std::move(y)};
}
[[nodiscard]] inline binary right_shift(operand_or_number a, operand_or_number b,
                                        operand y = {}) noexcept {
  return {binary_function::right_shift, std::move(a), std::move(b), std::move(y)};
}
///@}

/// The functions behind the operation: of all functions, and of that of a request.
///@{
[[nodiscard]] SLUICE_EXPORT const operation_descriptor& descriptor_of(operation_type<binary>);
[[nodiscard]] SLUICE_EXPORT const operation_descriptor& descriptor_of(const binary& operation);
///@}

}  // namespace sluice
