// SPDX-License-Identifier: Apache-2.0
#include "operations/elementwise/element_sets.hpp"
#include "operations/elementwise/layouts.hpp"
#include "operations/elementwise/map_calls.hpp"
#include "operations/elementwise/map_functions.hpp"

#include <sluice/operations/unary.hpp>

#include <array>
#include <cmath>
#include <cstddef>
#include <limits>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

namespace sluice {
namespace {

using operations::element_set;
using operations::unary_call;
using operations::unary_parameter;

struct unary_properties {
  std::string_view name;
  std::string_view result;
  element_set operands = element_set::real;
  int parameters = 0;  // how many of alpha and beta it takes
  double alpha = 0;
  double beta = 0;
};
/// In the order of `unary_function`.
constexpr std::array<unary_properties, unary_function_count> unary_functions{{
    {"negate", "-x", element_set::all},
    {"abs", "absolute value", element_set::all},
    {"sign", "-1, 0 or 1", element_set::not_complex},
    {"reciprocal", "1 / x", element_set::real_or_complex},
    {"sqrt", "√x"},
    {"rsqrt", "1 / √x"},
    {"exp", "exp(x)"},
    {"exp2", "2^x"},
    {"expm1", "exp(x) - 1"},
    {"log", "ln(x)"},
    {"log2", "log2(x)"},
    {"log10", "log10(x)"},
    {"log1p", "ln(1 + x)"},
    {"sin", "sin(x)"},
    {"cos", "cos(x)"},
    {"tan", "tan(x)"},
    {"asin", "arcsin(x)"},
    {"acos", "arccos(x)"},
    {"atan", "arctan(x)"},
    {"sinh", "sinh(x)"},
    {"cosh", "cosh(x)"},
    {"tanh", "tanh(x)"},
    {"asinh", "arsinh(x)"},
    {"acosh", "arcosh(x)"},
    {"atanh", "artanh(x)"},
    {"erf", "the error function"},
    {"floor", "⌊x⌋", element_set::not_complex},
    {"ceil", "⌈x⌉", element_set::not_complex},
    {"round", "the nearest integer, ties to even", element_set::not_complex},
    {"trunc", "the integer part", element_set::not_complex},
    {"isnan", "whether x is NaN", element_set::real},
    {"isinf", "whether x is infinite", element_set::real},
    {"logical_not", "whether x is 0", element_set::not_complex},
    {"bitwise_not", "all bits inverted", element_set::integer},
    {"conjugate", "the complex conjugate", element_set::complex},
    {"angle", "the argument of a complex number", element_set::complex},
    {"relu", "max(x, 0)", element_set::not_complex},
    {"leaky_relu", "x; below 0: alpha · x", element_set::real, 1, 0.01},
    {"thresholded_relu", "x above alpha, else 0", element_set::real, 1, 1},
    {"elu", "x; below 0: alpha · (exp(x) - 1)", element_set::real, 1, 1},
    {"selu", "beta · elu(x)", element_set::real, 2, 1.67326319217681884765625,
     1.05070102214813232421875},
    {"celu", "x; below 0: alpha · (exp(x / alpha) - 1)", element_set::real, 1, 1},
    {"sigmoid", "1 / (1 + exp(-x))"},
    {"hard_sigmoid", "alpha · x + beta between 0 and 1", element_set::real, 2, 1.0 / 6, 0.5},
    {"hard_swish", "x · hard_sigmoid(x)"},
    {"softplus", "ln(1 + exp(x))"},
    {"softsign", "x / (1 + abs(x))"},
    {"gelu", "x · Φ(x)"},
    {"gelu_tanh", "x · Φ(x), approximated with tanh"},
    {"silu", "x · sigmoid(alpha · x)", element_set::real, 1, 1},
    {"mish", "x · tanh(softplus(x))"},
    {"shrink", "x nearer to 0 by beta outside of ±alpha, else 0", element_set::real, 2, 0.5, 0},
    {"clip", "x between alpha and beta", element_set::not_complex, 2},
}};

element_type result_type(unary_function function, element_type x) {
  if (operations::is_predicate(function)) return element_type::boolean;
  if (!operations::is_complex(x)) return x;
  return function == unary_function::abs || function == unary_function::angle
             ? operations::part_of(x)
             : x;
}

/// A parameter in the compute type of X; nothing if it is not given.
std::optional<unary_parameter> parameter_of(std::string_view name,
                                            const std::optional<scalar>& value, element_type type) {
  if (!value) return {};
  switch (operations::compute_type_of(operations::storage_of(type))) {
    case operations::compute_type::i64:
      return unary_parameter(value->to<std::int64_t>(name));
    case operations::compute_type::u64:
      return unary_parameter(value->to<std::uint64_t>(name));
    case operations::compute_type::f64:
      return unary_parameter(value->to<double>(name));
    default:
      return unary_parameter(value->to<float>(name));
  }
}
/// The number as a parameter. Bounds of integers are as large as their compute type.
unary_parameter default_parameter(double value, element_type type) {
  const auto bound = [value](auto number) {
    using limits = std::numeric_limits<decltype(number)>;
    return unary_parameter(value < 0 ? limits::lowest() : limits::max());
  };
  switch (operations::compute_type_of(operations::storage_of(type))) {
    case operations::compute_type::i64:
      return bound(std::int64_t{});
    case operations::compute_type::u64:
      return bound(std::uint64_t{});
    case operations::compute_type::f64:
      return unary_parameter(value);
    default:
      return unary_parameter(static_cast<float>(value));
  }
}

/// A bound of `clip`. An infinite one is a bound of real types; in integers it is none if it bounds
/// nothing.
std::optional<unary_parameter> bound_of(std::string_view name, const std::optional<scalar>& value,
                                        element_type type, double none) {
  const auto special = value ? value->non_finite() : std::nullopt;
  const bool is_infinite = special && std::isinf(*special);
  if (is_infinite && (*special == none || operations::is_floating_point(type))) {
    return default_parameter(*special, type);
  }
  return parameter_of(name, value, type);
}

void refuse_parameter(std::string_view name, const std::optional<scalar>& value,
                      std::string_view function) {
  if (value) throw invalid_argument(name, "is given, but " + std::string(function) + " has none");
}

unary_call infer_unary(const unary& op, inference& inference) {
  auto function = operations::require_function(op.function, unary_function::clip);
  const auto& properties = unary_functions[static_cast<std::size_t>(function)];
  const auto& x = inference.require(op.x);
  operations::require_element(inference, op.x, x.type, properties.operands, properties.name);
  if (properties.parameters < 1) refuse_parameter("alpha", op.alpha, properties.name);
  if (properties.parameters < 2) refuse_parameter("beta", op.beta, properties.name);
  const auto type = result_type(function, x.type);
  if (type == x.type) inference.allow_in_place(op.y, op.x);
  const auto& y = inference.result(op.y, type, x.shape, operations::memory_order(x));
  // Booleans are numbers of many bits while they are computed.
  if (function == unary_function::bitwise_not && x.type == element_type::boolean) {
    function = unary_function::logical_not;
  }
  unary_call call{operations::make_layout<2>(x.shape, {y.strides, x.strides}, {type, x.type}),
                  function};
  if (function == unary_function::clip) {
    constexpr double infinity = std::numeric_limits<double>::infinity();
    const auto least = bound_of("least", op.alpha, x.type, -infinity);
    const auto most = bound_of("most", op.beta, x.type, infinity);
    call.alpha = least ? *least : default_parameter(-infinity, x.type);
    call.beta = most ? *most : default_parameter(infinity, x.type);
    return call;
  }
  const auto alpha = parameter_of("alpha", op.alpha, x.type);
  const auto beta = parameter_of("beta", op.beta, x.type);
  if (function == unary_function::celu && op.alpha && op.alpha->is_zero()) {
    throw invalid_argument("alpha", "is 0; celu divides by it");
  }
  call.alpha = alpha ? *alpha : default_parameter(properties.alpha, x.type);
  call.beta = beta ? *beta : default_parameter(properties.beta, x.type);
  return call;
}

constexpr auto make_unary = operations::map_functions<unary, unary_call, infer_unary, &unary::x>;

}  // namespace

const operation_descriptor& descriptor_of(operation_type<unary>) {
  static const operations::map_descriptor<unary, unary_call> descriptor(make_unary("unary"));
  return descriptor;
}
const operation_descriptor& descriptor_of(const unary& operation) {
  static const auto descriptors = operations::map_descriptors<unary, unary_call>(
      make_unary, unary_functions, std::make_index_sequence<unary_function_count>());
  return operations::descriptor_at(descriptors, operation.function,
                                   descriptor_of(operation_type<unary>()));
}

std::vector<operation_description> operations::describe_unary() {
  std::vector<operation_description> all;
  for (std::size_t i = 0; i < unary_functions.size(); ++i) {
    all.push_back({&descriptor_of(unary{.function = static_cast<unary_function>(i)}),
                   unary_functions[i].result, to_string(unary_functions[i].operands),
                   "any strides"});
  }
  return all;
}

}  // namespace sluice
