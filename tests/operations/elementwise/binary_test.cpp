// SPDX-License-Identifier: Apache-2.0
#include "tests/operations/elementwise/elements.hpp"
#include "tests/operations/elementwise/function_references.hpp"

#include <sluice/operations/binary.hpp>
#include <sluice/operations/operation_descriptor.hpp>

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <string>
#include <type_traits>
#include <vector>

namespace sluice::test {
namespace {

std::string name_of(binary_function function) {
  return std::string(descriptor_of(binary{.function = function}).name());
}

bool has_boolean_result(binary_function f) {
  return f >= binary_function::equal && f <= binary_function::logical_xor;
}
bool takes(binary_function f, element_type type) {
  const bool is_of_integers = f >= binary_function::bitwise_and;
  if (is_complex_type(type)) {
    return f <= binary_function::divide || f == binary_function::equal ||
           f == binary_function::not_equal;
  }
  return is_floating_type(type) ? !is_of_integers : f != binary_function::atan2;
}
int bound_of(binary_function f) {
  return f == binary_function::power || f == binary_function::atan2 ? 8 : 0;
}

number complex_reference(binary_function f, element_type type, const number& a, const number& b) {
  const auto native = [&](auto part) -> number {
    using real = decltype(part);
    const std::complex<real> u(a);
    const std::complex<real> v(b);
    if (f != binary_function::multiply) return number(f == binary_function::add ? u + v : u - v);
    const volatile real p = u.real() * v.real();
    const volatile real q = u.imag() * v.imag();
    const volatile real r = u.real() * v.imag();
    const volatile real s = u.imag() * v.real();
    return {p - q, r + s};
  };
  return type == element_type::c64 ? native(float{}) : native(double{});
}

/// Whether `computed` is f(a, b) of elements of a type.
bool is_right(binary_function f, element_type type, const number& a, const number& b,
              const number& computed) {
  if (is_complex_type(type)) {
    if (f == binary_function::equal || f == binary_function::not_equal) {
      return computed.real() == ((a == b) == (f == binary_function::equal) ? 1 : 0);
    }
    if (f != binary_function::divide) return same(computed, complex_reference(f, type, a, b));
    const number expected = a / b;
    if (!std::isfinite(std::abs(expected))) return true;
    return std::abs(computed - expected) <= 8 * unit_at(type, std::abs(expected));
  }
  if (has_boolean_result(f)) return computed.real() == real_reference(f, a.real(), b.real());
  if (is_floating_type(type)) {
    const auto expected = real_reference(f, a.real(), b.real());
    // Computed in f80, a few results of f64 would be rounded twice.
    const bool is_rounded_twice = type == element_type::f64 || f == binary_function::remainder;
    const int bound = is_rounded_twice ? std::max(bound_of(f), 1) : bound_of(f);
    return is_near(type, computed.real(), expected, bound);
  }
  const int bits = 8 * static_cast<int>(size_of(type));
  const auto wide = integer_reference(f, static_cast<wide_integer>(a.real()),
                                      static_cast<wide_integer>(b.real()), bits);
  if (type == element_type::boolean) return computed.real() == (wide != 0 ? 1 : 0);
  return with_integer_type(type, [&](auto integer) {
    return computed.real() == static_cast<long double>(static_cast<decltype(integer)>(wide));
  });
}

class binary_functions : public elementwise_test {
 protected:
  template <class Check>
  void for_each_function(const Check& check) {
    for (std::size_t i = 0; i < binary_function_count; ++i) {
      const auto f = static_cast<binary_function>(i);
      SCOPED_TRACE(name_of(f));
      check(f);
    }
  }
  void expect_right(binary_function f, const elements& a, const elements& b, const tensor& y) {
    expect_each(y, [&](const extents& i, const number& computed) {
      return is_right(f, a.type(), a[i], b[i], computed)
                 ? ::testing::AssertionSuccess()
                 : ::testing::AssertionFailure()
                       << computed.real() << '+' << computed.imag() << "i of " << a[i].real() << '+'
                       << a[i].imag() << "i and " << b[i].real() << '+' << b[i].imag() << 'i';
    });
  }
  void expect_right(binary_function f, element_type type, drawn how) {
    const auto shape = random_shape();
    extents a_shape = part_of(shape);
    extents b_shape = part_of(shape);
    if (a_shape.size() < shape.size()) b_shape = shape;
    const auto a = make(type, a_shape, how);
    const auto b = make(type, b_shape, how);
    extents common = b_shape.size() > a_shape.size() ? b_shape : a_shape;
    const auto& other = b_shape.size() > a_shape.size() ? a_shape : b_shape;
    for (std::size_t i = 0; i < other.size(); ++i) {
      auto& extent = common[common.size() - other.size() + i];
      if (extent == 1) extent = other[i];
    }
    binary op{.function = f, .a = a.view(), .b = b.view()};
    const bool has_output = coin();
    const auto result_type = has_boolean_result(f) ? element_type::boolean : type;
    const auto y = make(result_type, common);
    if (has_output) op.y = y.view();
    const auto result = run(test_executor(), op);
    EXPECT_EQ(result.shape(), common);
    EXPECT_EQ(result.type(), result_type);
    expect_right(f, a, b, result);
    if (has_output) {
      expect_gaps_untouched(y);
    } else {
      expect_order_of({a.view(), b.view()}, result);
    }
  }
  template <class Integer>
  void expect_extremes_right(element_type type) {
    std::vector<Integer> values{std::numeric_limits<Integer>::min(),
                                std::numeric_limits<Integer>::max()};
    for (const int value : {-1, 0, 1, 7, -64, 64}) values.push_back(static_cast<Integer>(value));
    const auto count = static_cast<std::int64_t>(values.size());
    auto a = make_contiguous(type, {count, 1});
    auto b = make_contiguous(type, {count});
    a.set(values);
    b.set(values);
    for_each_function([&](binary_function f) {
      if (!takes(f, type)) return;
      expect_right(f, a, b,
                   run(test_executor(), binary{.function = f, .a = a.view(), .b = b.view()}));
    });
  }
};

TEST_P(binary_functions, of_all_types_shapes_and_strides) {
  for_each_function([&](binary_function f) {
    for (const auto type : computed_element_types) {
      if (!takes(f, type)) continue;
      SCOPED_TRACE(to_string(type));
      for (const auto how : {drawn::numbers, drawn::few, drawn::few, drawn::wide}) {
        expect_right(f, type, how);
      }
    }
  });
}

TEST_P(binary_functions, of_rows_without_gaps) {
  // f32, f16 and bf16 without gaps have a kernel of their own.
  for_each_function([&](binary_function f) {
    for (const auto type : {element_type::f32, element_type::f16, element_type::bf16}) {
      if (!takes(f, type)) continue;
      for (const std::int64_t count : {1, 3, 8, 9, 1023, 3001}) {
        for (const std::int64_t offset : {0, 1, 8}) {
          const auto a = make_contiguous(type, {count + offset});
          const auto b = make_contiguous(type, {count + 8});
          const binary op{.function = f,
                          .a = a.view().slice(0, offset, count + offset),
                          .b = b.view().slice(0, 8, count + 8)};
          const auto y = run(test_executor(), op);
          expect_each(y, [&](const extents& i, const number& computed) {
            return is_right(f, type, a[{i[0] + offset}], b[{i[0] + 8}], computed);
          });
        }
      }
    }
  });
}

TEST_P(binary_functions, of_more_rows_than_threads) {
  for (const auto type : {element_type::f32, element_type::f16}) {
    const auto a = make_contiguous(type, {70'001});
    const auto b = make_contiguous(type, {70'001});
    expect_right(binary_function::add, a, b, run(test_executor(), add(a.view(), b.view())));
  }
}

TEST_P(binary_functions, of_special_values) {
  constexpr float nan = std::numeric_limits<float>::quiet_NaN();
  constexpr float infinite = std::numeric_limits<float>::infinity();
  const std::vector<float> values{nan, infinite, -infinite, 0.0F, -0.0F, 1, -1, 2.5F, -3};
  const auto count = static_cast<std::int64_t>(values.size());
  auto a = make_contiguous(element_type::f32, {count, 1});
  auto b = make_contiguous(element_type::f32, {count});
  a.set(values);
  b.set(values);
  for_each_function([&](binary_function f) {
    if (!takes(f, element_type::f32)) return;
    expect_right(f, a, b,
                 run(test_executor(), binary{.function = f, .a = a.view(), .b = b.view()}));
  });
}

TEST_P(binary_functions, of_the_smallest_integers) {
  for (const auto type :
       {element_type::i8, element_type::i16, element_type::i32, element_type::i64}) {
    with_integer_type(type, [&](auto integer) {
      using native = decltype(integer);
      if constexpr (!std::is_same_v<native, bool>) expect_extremes_right<native>(type);
    });
  }
}

TEST_P(binary_functions, in_place) {
  for_each_function([&](binary_function f) {
    if (has_boolean_result(f)) return;
    const auto type = takes(f, element_type::i32) ? element_type::i32 : element_type::f32;
    for (const bool is_a : {true, false}) {
      const auto a = make(type, {6, 7});
      const auto b = make(type, {6, 7});
      const auto& y = is_a ? a : b;
      EXPECT_EQ(
          run(test_executor(), binary{.function = f, .a = a.view(), .b = b.view(), .y = y.view()}),
          y.view());
      expect_right(f, a, b, y.view());
      expect_gaps_untouched(y);
    }
    for (const auto& shape : {extents{6, 7}, extents{}, extents{0, 3}, extents{5000}}) {
      const auto x = make(type, shape);
      EXPECT_EQ(
          run(test_executor(), binary{.function = f, .a = x.view(), .b = x.view(), .y = x.view()}),
          x.view());
      expect_right(f, x, x, x.view());
      expect_gaps_untouched(x);
    }
  });
  const auto flat = make_contiguous(element_type::f32, {5003});
  (void)run(test_executor(), multiply(flat.view(), flat.view(), flat.view()));
  expect_right(binary_function::multiply, flat, flat, flat.view());
}

TEST_P(binary_functions, of_booleans_in_place) {
  for (const auto f : {binary_function::equal, binary_function::logical_xor}) {
    const auto a = make(element_type::boolean, {6, 7});
    const auto b = make(element_type::boolean, {7});
    (void)run(test_executor(), binary{.function = f, .a = a.view(), .b = b.view(), .y = a.view()});
    expect_right(f, a, b, a.view());
  }
}

INSTANTIATE_TEST_SUITE_P(devices, binary_functions, every_device(), parameter_name);

TEST(binary_references, know_wrong_results) {
  EXPECT_FALSE(is_right(binary_function::add, element_type::f32, 1, 1, 2.0000002L));
  EXPECT_FALSE(is_right(binary_function::power, element_type::f32, 2, 3, 8.00001L));
  EXPECT_FALSE(is_right(binary_function::remainder, element_type::i32, -3, 2, -1));
  EXPECT_FALSE(is_right(binary_function::fmod, element_type::i32, -3, 2, 1));
  EXPECT_FALSE(is_right(binary_function::maximum, element_type::f32, -0.0L, 0.0L, -0.0L));
}

}  // namespace
}  // namespace sluice::test
