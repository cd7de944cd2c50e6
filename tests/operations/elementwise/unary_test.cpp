// SPDX-License-Identifier: Apache-2.0
#include "tests/operations/elementwise/elements.hpp"
#include "tests/operations/elementwise/function_references.hpp"

#include <sluice/operations/operation_descriptor.hpp>
#include <sluice/operations/unary.hpp>

#include <gtest/gtest.h>

#include <cmath>
#include <complex>
#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <vector>

namespace sluice::test {
namespace {

std::string name_of(unary_function function) {
  return std::string(descriptor_of(unary{.function = function}).name());
}

bool has_boolean_result(unary_function f) {
  return f == unary_function::isnan || f == unary_function::isinf ||
         f == unary_function::logical_not;
}
bool takes(unary_function f, element_type type) {
  using function = unary_function;
  switch (f) {
    case function::negate:
    case function::abs:
      return true;
    case function::sign:
    case function::floor:
    case function::ceil:
    case function::round:
    case function::trunc:
    case function::logical_not:
    case function::relu:
    case function::clip:
      return !is_complex_type(type);
    case function::bitwise_not:
      return !is_complex_type(type) && !is_floating_type(type);
    case function::conjugate:
    case function::angle:
      return is_complex_type(type);
    case function::reciprocal:
      return is_complex_type(type) || is_floating_type(type);
    default:
      return is_floating_type(type);
  }
}
element_type result_type(unary_function f, element_type type) {
  if (has_boolean_result(f)) return element_type::boolean;
  if (!is_complex_type(type)) return type;
  if (f != unary_function::abs && f != unary_function::angle) return type;
  return type == element_type::c64 ? element_type::f32 : element_type::f64;
}

struct parameter_values {
  std::optional<double> alpha{};
  std::optional<double> beta{};
};
/// The parameters that a function has when none are given.
parameter_values default_parameters(unary_function f) {
  constexpr double infinity = std::numeric_limits<double>::infinity();
  switch (f) {
    case unary_function::leaky_relu:
      return {0.01};
    case unary_function::thresholded_relu:
    case unary_function::elu:
    case unary_function::celu:
    case unary_function::silu:
      return {1.0};
    case unary_function::selu:
      return {1.67326319217681884765625, 1.05070102214813232421875};
    case unary_function::hard_sigmoid:
      return {1.0 / 6, 0.5};
    case unary_function::shrink:
      return {0.5, 0.0};
    case unary_function::clip:
      return {-infinity, infinity};
    default:
      return {};
  }
}

number complex_reference(unary_function f, const number& z) {
  switch (f) {
    case unary_function::negate:
      return {-z.real(), -z.imag()};
    case unary_function::conjugate:
      return std::conj(z);
    case unary_function::reciprocal:
      return number(1) / z;
    case unary_function::abs:
      return std::abs(z);
    default:
      return std::arg(z);
  }
}

/// Whether `computed` is f(x) of an element of a type.
bool is_right(unary_function f, element_type type, const number& x, const parameter_values& values,
              const error_bounds& bounds, const number& computed) {
  if (is_complex_type(type)) {
    const auto expected = complex_reference(f, x);
    if (f == unary_function::negate || f == unary_function::conjugate) {
      return same(computed, expected);
    }
    if (!std::isfinite(std::abs(expected))) return true;
    return std::abs(computed - expected) <= 8 * unit_at(type, std::abs(expected));
  }
  if (is_floating_type(type)) {
    // Parameters are rounded to the type of the computation.
    const auto rounded_parameter = [&](const std::optional<double>& value) -> long double {
      return type == element_type::f64 ? value.value_or(0) : static_cast<float>(value.value_or(0));
    };
    const auto expected = real_reference(f, x.real(), rounded_parameter(values.alpha),
                                         rounded_parameter(values.beta));
    if (has_boolean_result(f)) return computed.real() == expected;
    if (f == unary_function::relu || f == unary_function::clip) {
      // Of zeros, any sign.
      const auto rounded_expected = to_real_type(type, expected);
      return computed.real() == rounded_expected || same(computed.real(), rounded_expected);
    }
    return is_near(type, computed.real(), expected, bound_of(f, type, bounds),
                   is_relative_to_argument(f) ? x.real() : 0);
  }
  const auto value = static_cast<wide_integer>(x.real());
  const auto expected = [&]() -> wide_integer {
    switch (f) {
      case unary_function::negate:
        return -value;
      case unary_function::abs:
        return value < 0 ? -value : value;
      case unary_function::sign:
        return value > 0 ? 1 : value < 0 ? -1 : 0;
      case unary_function::logical_not:
        return value == 0 ? 1 : 0;
      case unary_function::bitwise_not:
        return type == element_type::boolean ? 1 - value : -1 - value;
      case unary_function::relu:
        return value > 0 ? value : 0;
      case unary_function::clip:
        if (values.alpha && static_cast<long double>(value) < *values.alpha) {
          return static_cast<wide_integer>(*values.alpha);
        }
        if (values.beta && static_cast<long double>(value) > *values.beta) {
          return static_cast<wide_integer>(*values.beta);
        }
        return value;
      default:
        return value;
    }
  }();
  if (type == element_type::boolean || has_boolean_result(f)) {
    return computed.real() == (expected != 0 ? 1 : 0);
  }
  return with_integer_type(type, [&](auto integer) {
    return computed.real() == static_cast<long double>(static_cast<decltype(integer)>(expected));
  });
}

class unary_functions : public elementwise_test {
 protected:
  template <class Check>
  void for_each_function(const Check& check) {
    for (std::size_t i = 0; i < unary_function_count; ++i) {
      const auto f = static_cast<unary_function>(i);
      SCOPED_TRACE(name_of(f));
      check(f);
    }
  }
  [[nodiscard]] error_bounds bounds() {
    return {.functions = runtime().device().id().kind == device_kind::host ? 4 : 6};
  }
  void expect_right(unary_function f, const elements& x, const parameter_values& values,
                    const tensor& y) {
    const auto limits = bounds();
    expect_each(y, [&](const extents& i, const number& computed) {
      return is_right(f, x.type(), x[i], values, limits, computed)
                 ? ::testing::AssertionSuccess()
                 : ::testing::AssertionFailure()
                       << std::hexfloat << computed.real() << '+' << computed.imag() << "i of "
                       << x[i].real() << '+' << x[i].imag() << 'i';
    });
  }
  void expect_right(unary_function f, element_type type, drawn how) {
    const auto x = make(type, random_shape(), how);
    unary op{.function = f, .x = x.view()};
    const bool has_output = coin();
    const auto y = make(result_type(f, type), x.view().shape());
    if (has_output) op.y = y.view();
    const auto result = run(test_executor(), op);
    EXPECT_EQ(result.shape(), x.view().shape());
    EXPECT_EQ(result.type(), result_type(f, type));
    expect_right(f, x, default_parameters(f), result);
    if (has_output) {
      expect_gaps_untouched(y);
    } else {
      expect_order_of({x.view()}, result);
    }
  }
};

TEST_P(unary_functions, of_all_types_shapes_and_strides) {
  for_each_function([&](unary_function f) {
    for (const auto type : computed_element_types) {
      if (!takes(f, type)) continue;
      SCOPED_TRACE(to_string(type));
      for (const auto how : {drawn::numbers, drawn::few, drawn::wide}) expect_right(f, type, how);
      if (!is_complex_type(type)) expect_right(f, type, drawn::bits);
    }
  });
}

TEST_P(unary_functions, of_rows_without_gaps) {
  // f32, f16 and bf16 without gaps have a kernel of their own.
  for_each_function([&](unary_function f) {
    for (const auto type : {element_type::f32, element_type::f16, element_type::bf16}) {
      if (!takes(f, type)) continue;
      SCOPED_TRACE(to_string(type));
      for (const std::int64_t count : {1, 7, 8, 9, 1023, 3001}) {
        const auto how = coin() ? drawn::wide : drawn::bits;
        const auto x = make_contiguous(type, {count}, how);
        expect_right(f, x, default_parameters(f),
                     run(test_executor(), unary{.function = f, .x = x.view()}));
      }
    }
  });
}

TEST_P(unary_functions, of_special_values) {
  constexpr float nan = std::numeric_limits<float>::quiet_NaN();
  constexpr float infinite = std::numeric_limits<float>::infinity();
  constexpr float smallest = std::numeric_limits<float>::denorm_min();
  constexpr float largest = std::numeric_limits<float>::max();
  auto x = make_contiguous(element_type::f32, {29});
  x.set(std::vector<float>{nan,      infinite,    -infinite,  0.0F,     -0.0F,       1,
                           -1,       0.5F,        -0.5F,      1.5F,     2.5F,        -1.5F,
                           smallest, -smallest,   1e-39F,     1e-20F,   -1e-9F,      88.5F,
                           89,       -88.5F,      -104,       1e5F,     -1e5F,       largest,
                           -largest, 0.99999994F, 1.0000001F, 16777216, -0.99999994F});
  for_each_function([&](unary_function f) {
    if (!takes(f, element_type::f32)) return;
    expect_right(f, x, default_parameters(f),
                 run(test_executor(), unary{.function = f, .x = x.view()}));
  });
}

TEST_P(unary_functions, take_parameters) {
  for (const auto type : {element_type::f16, element_type::f32, element_type::f64}) {
    const auto x = make(type, {31, 5}, drawn::wide);
    for (const auto f : {unary_function::leaky_relu, unary_function::thresholded_relu,
                         unary_function::elu, unary_function::celu, unary_function::silu}) {
      SCOPED_TRACE(name_of(f));
      expect_right(f, x, {1.7},
                   run(test_executor(), unary{.function = f, .x = x.view(), .alpha = 1.7}));
    }
    for (const auto f : {unary_function::selu, unary_function::hard_sigmoid, unary_function::shrink,
                         unary_function::clip}) {
      SCOPED_TRACE(name_of(f));
      expect_right(
          f, x, {0.3, 1.25},
          run(test_executor(), unary{.function = f, .x = x.view(), .alpha = 0.3, .beta = 1.25}));
    }
    expect_right(unary_function::clip, x, {-1.5, INFINITY},
                 run(test_executor(), clip(x.view(), -1.5, {})));
    for (const auto& [least, most] : {std::pair<double, double>{0.5, INFINITY},
                                      {-INFINITY, 0.5},
                                      {-INFINITY, INFINITY},
                                      {INFINITY, INFINITY},
                                      {-INFINITY, -INFINITY}}) {
      expect_right(unary_function::clip, x, {least, most},
                   run(test_executor(), clip(x.view(), least, most)));
    }
  }
  for (const auto type :
       {element_type::i8, element_type::u16, element_type::i64, element_type::u64}) {
    const auto x = make(type, {31, 5}, drawn::few);
    expect_right(unary_function::clip, x, {1, 2}, run(test_executor(), clip(x.view(), 1, 2)));
    expect_right(unary_function::clip, x, {{}, 2}, run(test_executor(), clip(x.view(), {}, 2)));
    expect_right(unary_function::clip, x, {{}, 2},
                 run(test_executor(), clip(x.view(), -INFINITY, 2)));
    expect_right(unary_function::clip, x, {2, {}},
                 run(test_executor(), clip(x.view(), 2, INFINITY)));
  }
  const std::int64_t large = (std::int64_t{1} << 53U) + 1;
  auto x = make_contiguous(element_type::i64, {3});
  x.set(std::vector<std::int64_t>{large - 1, large, large + 1});
  expect_elements(run(test_executor(), clip(x.view(), large, large)),
                  [&](const extents&) -> number { return static_cast<long double>(large); });
}

TEST_P(unary_functions, in_place) {
  for_each_function([&](unary_function f) {
    const auto type = takes(f, element_type::f32)   ? element_type::f32
                      : takes(f, element_type::i32) ? element_type::i32
                                                    : element_type::c64;
    if (result_type(f, type) != type) return;
    for (const auto& shape : {extents{6, 7}, extents{}, extents{0, 3}, extents{3001}}) {
      const auto x = make(type, shape);
      EXPECT_EQ(run(test_executor(), unary{.function = f, .x = x.view(), .y = x.view()}), x.view());
      expect_right(f, x, default_parameters(f), x.view());
      expect_gaps_untouched(x);
    }
  });
}

/// A result depends on its element alone: not on its place, nor on the other elements.
TEST_P(unary_functions, have_equal_bits_in_every_place) {
  for_each_function([&](unary_function f) {
    if (!takes(f, element_type::f32) || has_boolean_result(f)) return;
    const auto x = make_contiguous(element_type::f32, {70}, drawn::wide);
    const auto all = contents_of(run(test_executor(), unary{.function = f, .x = x.view()}));
    for (std::int64_t i = 0; i < 70; ++i) {
      const auto one =
          contents_of(run(test_executor(), unary{.function = f, .x = x.view().slice(0, i, i + 1)}));
      EXPECT_TRUE(std::equal(one.begin(), one.begin() + sizeof(float),
                             all.begin() + i * static_cast<std::int64_t>(sizeof(float))))
          << i;
    }
  });
}

INSTANTIATE_TEST_SUITE_P(devices, unary_functions, every_device(), parameter_name);

TEST(unary_references, know_wrong_results) {
  EXPECT_FALSE(is_right(unary_function::exp, element_type::f32, 0, {}, {}, 1.000001L));
  EXPECT_FALSE(is_right(unary_function::sqrt, element_type::f32, 4, {}, {}, 2.000001L));
  EXPECT_FALSE(is_right(unary_function::round, element_type::f32, 2.5L, {}, {}, 3));
  EXPECT_FALSE(is_right(unary_function::gelu, element_type::f32, 1, {}, {}, 0.8412L));
  EXPECT_FALSE(is_right(unary_function::negate, element_type::f32, 0, {}, {}, 0));
}

}  // namespace
}  // namespace sluice::test
