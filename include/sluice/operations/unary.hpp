// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sluice/export.hpp>
#include <sluice/operations/element_functions.hpp>
#include <sluice/operations/members.hpp>
#include <sluice/operations/operation_type.hpp>
#include <sluice/operations/scalar.hpp>

#include <optional>
#include <tuple>
#include <utility>

namespace sluice {

/// A function of each element of X.
///
///     exp(x)                                                // is short for
///     unary{.function = unary_function::exp, .x = x}
///
/// `unary_function` lists the functions with their element types and parameters. Y has the type of
/// X, but for functions whose result is a boolean or the real number of a complex one; `cast`
/// converts X to a type that a function takes. Integers wrap around. f16 and bf16 are computed in
/// f32. X and Y have any strides. Y may be the same view as X if both have one type; otherwise they
/// share no bytes. The result is Y, a new tensor without gaps if it is not given, whose dimensions
/// lie in the order of those of X.
///
/// A result is rounded once where its definition is one operation of arithmetic. The error of other
/// functions is at most 4 units in the last place on the host device and 6 on a GPU, so results of
/// the two may differ in the last bits. Units are those of the result, and for `hard_sigmoid`,
/// `hard_swish`, `gelu`, `gelu_tanh`, `silu` and `mish` those of max(|x|, |y|). A result depends on
/// its element alone.
struct unary {
  std::optional<unary_function> function{};  ///< required
  operand x{};                               ///< X, of any shape
  operand y{};                               ///< Y, of the shape of X
  std::optional<scalar> alpha{};             ///< real; the default of the function if not given
  std::optional<scalar> beta{};              ///< real; the default of the function if not given

  /// All members, in order.
  template <class = void>
  static constexpr auto members() {
    return std::make_tuple(parameter("function", &unary::function), input("x", &unary::x),
                           parameter("alpha", &unary::alpha), parameter("beta", &unary::beta),
                           output("y", &unary::y));
  }
};

/// A function of each element of X, into Y if it is given; see `unary_function`.
///@{
[[nodiscard]] inline unary negate(operand x, operand y = {}) noexcept {
  return {unary_function::negate, std::move(x), std::move(y)};
}
[[nodiscard]] inline unary abs(operand x, operand y = {}) noexcept {
  return {unary_function::abs, std::move(x), std::move(y)};
}
[[nodiscard]] inline unary sign(operand x, operand y = {}) noexcept {
  return {unary_function::sign, std::move(x), std::move(y)};
}
[[nodiscard]] inline unary reciprocal(operand x, operand y = {}) noexcept {
  return {unary_function::reciprocal, std::move(x), std::move(y)};
}
[[nodiscard]] inline unary sqrt(operand x, operand y = {}) noexcept {
  return {unary_function::sqrt, std::move(x), std::move(y)};
}
[[nodiscard]] inline unary rsqrt(operand x, operand y = {}) noexcept {
  return {unary_function::rsqrt, std::move(x), std::move(y)};
}
[[nodiscard]] inline unary exp(operand x, operand y = {}) noexcept {
  return {unary_function::exp, std::move(x), std::move(y)};
}
[[nodiscard]] inline unary exp2(operand x, operand y = {}) noexcept {
  return {unary_function::exp2, std::move(x), std::move(y)};
}
[[nodiscard]] inline unary expm1(operand x, operand y = {}) noexcept {
  return {unary_function::expm1, std::move(x), std::move(y)};
}
[[nodiscard]] inline unary log(operand x, operand y = {}) noexcept {
  return {unary_function::log, std::move(x), std::move(y)};
}
[[nodiscard]] inline unary log2(operand x, operand y = {}) noexcept {
  return {unary_function::log2, std::move(x), std::move(y)};
}
[[nodiscard]] inline unary log10(operand x, operand y = {}) noexcept {
  return {unary_function::log10, std::move(x), std::move(y)};
}
[[nodiscard]] inline unary log1p(operand x, operand y = {}) noexcept {
  return {unary_function::log1p, std::move(x), std::move(y)};
}
[[nodiscard]] inline unary sin(operand x, operand y = {}) noexcept {
  return {unary_function::sin, std::move(x), std::move(y)};
}
[[nodiscard]] inline unary cos(operand x, operand y = {}) noexcept {
  return {unary_function::cos, std::move(x), std::move(y)};
}
[[nodiscard]] inline unary tan(operand x, operand y = {}) noexcept {
  return {unary_function::tan, std::move(x), std::move(y)};
}
[[nodiscard]] inline unary asin(operand x, operand y = {}) noexcept {
  return {unary_function::asin, std::move(x), std::move(y)};
}
[[nodiscard]] inline unary acos(operand x, operand y = {}) noexcept {
  return {unary_function::acos, std::move(x), std::move(y)};
}
[[nodiscard]] inline unary atan(operand x, operand y = {}) noexcept {
  return {unary_function::atan, std::move(x), std::move(y)};
}
[[nodiscard]] inline unary sinh(operand x, operand y = {}) noexcept {
  return {unary_function::sinh, std::move(x), std::move(y)};
}
[[nodiscard]] inline unary cosh(operand x, operand y = {}) noexcept {
  return {unary_function::cosh, std::move(x), std::move(y)};
}
[[nodiscard]] inline unary tanh(operand x, operand y = {}) noexcept {
  return {unary_function::tanh, std::move(x), std::move(y)};
}
[[nodiscard]] inline unary asinh(operand x, operand y = {}) noexcept {
  return {unary_function::asinh, std::move(x), std::move(y)};
}
[[nodiscard]] inline unary acosh(operand x, operand y = {}) noexcept {
  return {unary_function::acosh, std::move(x), std::move(y)};
}
[[nodiscard]] inline unary atanh(operand x, operand y = {}) noexcept {
  return {unary_function::atanh, std::move(x), std::move(y)};
}
[[nodiscard]] inline unary erf(operand x, operand y = {}) noexcept {
  return {unary_function::erf, std::move(x), std::move(y)};
}
[[nodiscard]] inline unary floor(operand x, operand y = {}) noexcept {
  return {unary_function::floor, std::move(x), std::move(y)};
}
[[nodiscard]] inline unary ceil(operand x, operand y = {}) noexcept {
  return {unary_function::ceil, std::move(x), std::move(y)};
}
[[nodiscard]] inline unary round(operand x, operand y = {}) noexcept {
  return {unary_function::round, std::move(x), std::move(y)};
}
[[nodiscard]] inline unary trunc(operand x, operand y = {}) noexcept {
  return {unary_function::trunc, std::move(x), std::move(y)};
}
[[nodiscard]] inline unary isnan(operand x, operand y = {}) noexcept {
  return {unary_function::isnan, std::move(x), std::move(y)};
}
[[nodiscard]] inline unary isinf(operand x, operand y = {}) noexcept {
  return {unary_function::isinf, std::move(x), std::move(y)};
}
[[nodiscard]] inline unary logical_not(operand x, operand y = {}) noexcept {
  return {unary_function::logical_not, std::move(x), std::move(y)};
}
[[nodiscard]] inline unary bitwise_not(operand x, operand y = {}) noexcept {
  return {unary_function::bitwise_not, std::move(x), std::move(y)};
}
[[nodiscard]] inline unary conjugate(operand x, operand y = {}) noexcept {
  return {unary_function::conjugate, std::move(x), std::move(y)};
}
[[nodiscard]] inline unary angle(operand x, operand y = {}) noexcept {
  return {unary_function::angle, std::move(x), std::move(y)};
}
[[nodiscard]] inline unary relu(operand x, operand y = {}) noexcept {
  return {unary_function::relu, std::move(x), std::move(y)};
}
[[nodiscard]] inline unary sigmoid(operand x, operand y = {}) noexcept {
  return {unary_function::sigmoid, std::move(x), std::move(y)};
}
[[nodiscard]] inline unary hard_swish(operand x, operand y = {}) noexcept {
  return {unary_function::hard_swish, std::move(x), std::move(y)};
}
[[nodiscard]] inline unary softplus(operand x, operand y = {}) noexcept {
  return {unary_function::softplus, std::move(x), std::move(y)};
}
[[nodiscard]] inline unary softsign(operand x, operand y = {}) noexcept {
  return {unary_function::softsign, std::move(x), std::move(y)};
}
[[nodiscard]] inline unary gelu(operand x, operand y = {}) noexcept {
  return {unary_function::gelu, std::move(x), std::move(y)};
}
[[nodiscard]] inline unary gelu_tanh(operand x, operand y = {}) noexcept {
  return {unary_function::gelu_tanh, std::move(x), std::move(y)};
}
[[nodiscard]] inline unary mish(operand x, operand y = {}) noexcept {
  return {unary_function::mish, std::move(x), std::move(y)};
}
///@}

/// A function with parameters of each element of X, into Y if it is given; see `unary_function`.
///@{
[[nodiscard]] inline unary leaky_relu(operand x, scalar alpha = 0.01, operand y = {}) noexcept {
  return {unary_function::leaky_relu, std::move(x), std::move(y), alpha};
}
[[nodiscard]] inline unary thresholded_relu(operand x, scalar alpha = 1, operand y = {}) noexcept {
  return {unary_function::thresholded_relu, std::move(x), std::move(y), alpha};
}
[[nodiscard]] inline unary elu(operand x, scalar alpha = 1, operand y = {}) noexcept {
  return {unary_function::elu, std::move(x), std::move(y), alpha};
}
[[nodiscard]] inline unary celu(operand x, scalar alpha = 1, operand y = {}) noexcept {
  return {unary_function::celu, std::move(x), std::move(y), alpha};
}
[[nodiscard]] inline unary silu(operand x, scalar alpha = 1, operand y = {}) noexcept {
  return {unary_function::silu, std::move(x), std::move(y), alpha};
}
[[nodiscard]] inline unary selu(operand x, operand y = {}) noexcept {
  return {unary_function::selu, std::move(x), std::move(y)};
}
[[nodiscard]] inline unary hard_sigmoid(operand x, operand y = {}) noexcept {
  return {unary_function::hard_sigmoid, std::move(x), std::move(y)};
}
[[nodiscard]] inline unary shrink(operand x, scalar alpha = 0.5, scalar beta = 0,
                                  operand y = {}) noexcept {
  return {unary_function::shrink, std::move(x), std::move(y), alpha, beta};
}
[[nodiscard]] inline unary clip(operand x, std::optional<scalar> least, std::optional<scalar> most,
                                operand y = {}) noexcept {
  return {unary_function::clip, std::move(x), std::move(y), least, most};
}
///@}

/// The functions behind the operation: of all functions, and of that of a request.
///@{
[[nodiscard]] SLUICE_EXPORT const operation_descriptor& descriptor_of(operation_type<unary>);
[[nodiscard]] SLUICE_EXPORT const operation_descriptor& descriptor_of(const unary& operation);
///@}

}  // namespace sluice
