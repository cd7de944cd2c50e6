// SPDX-License-Identifier: Apache-2.0
#include "tests/operations/elementwise/elements.hpp"

#include <sluice/operations/elementwise.hpp>

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <type_traits>
#include <vector>

namespace sluice::test {
namespace {

__extension__ using wide_integer = __int128;
__extension__ using wide_unsigned = unsigned __int128;

/// The operations, for integers in a wide type.
struct add_reference {
  using operation = add;
  static constexpr bool takes_complex = true;
  template <class T>
  static T real(T a, T b) {
    return a + b;
  }
  template <class T>
  static std::complex<T> complex(const std::complex<T>& a, const std::complex<T>& b) {
    return {a.real() + b.real(), a.imag() + b.imag()};
  }
};
struct subtract_reference {
  using operation = subtract;
  static constexpr bool takes_complex = true;
  template <class T>
  static T real(T a, T b) {
    return a - b;
  }
  template <class T>
  static std::complex<T> complex(const std::complex<T>& a, const std::complex<T>& b) {
    return {a.real() - b.real(), a.imag() - b.imag()};
  }
};
struct multiply_reference {
  using operation = multiply;
  static constexpr bool takes_complex = true;
  template <class T>
  static T real(T a, T b) {
    if constexpr (std::is_same_v<T, wide_integer>) {
      // The product of two u64 is too large for the signed type, and may wrap around.
      return static_cast<T>(static_cast<wide_unsigned>(a) * static_cast<wide_unsigned>(b));
    } else {
      return a * b;
    }
  }
  template <class T>
  static std::complex<T> complex(const std::complex<T>& a, const std::complex<T>& b) {
    const volatile T p = a.real() * b.real();
    const volatile T q = a.imag() * b.imag();
    const volatile T r = a.real() * b.imag();
    const volatile T s = a.imag() * b.real();
    return {p - q, r + s};
  }
};
struct maximum_reference {
  using operation = maximum;
  static constexpr bool takes_complex = false;
  template <class T>
  static T real(T a, T b) {
    return a == b ? (std::signbit(static_cast<double>(a)) ? b : a) : a > b || a != a ? a : b;
  }
  template <class T>
  static std::complex<T> complex(const std::complex<T>& a, const std::complex<T>&) {
    return a;
  }
};

struct minimum_reference {
  using operation = minimum;
  static constexpr bool takes_complex = false;
  template <class T>
  static T real(T a, T b) {
    return -maximum_reference::real<T>(-a, -b);
  }
  template <class T>
  static std::complex<T> complex(const std::complex<T>& a, const std::complex<T>&) {
    return a;
  }
};

template <class Reference>
number reference(element_type type, const number& a, const number& b) {
  const auto native = [&](auto part) -> number {
    using real = decltype(part);
    const volatile real result =
        Reference::real(static_cast<real>(a.real()), static_cast<real>(b.real()));
    return static_cast<long double>(result);
  };
  const auto native_complex = [&](auto part) -> number {
    using z = std::complex<decltype(part)>;
    return number(Reference::complex(z(a), z(b)));
  };
  switch (type) {
    case element_type::c64:
      return native_complex(float{});
    case element_type::c128:
      return native_complex(double{});
    case element_type::f64:
      return native(double{});
    case element_type::f16:
    case element_type::bf16:
    case element_type::f32:
      return to_real_type(type, Reference::real(a.real(), b.real()));
    case element_type::boolean:
      return Reference::real(a.real(), b.real()) != 0 ? 1 : 0;
    default:
      return with_integer_type(type, [&](auto integer_value) -> number {
        const auto wide = Reference::real(static_cast<wide_integer>(a.real()),
                                          static_cast<wide_integer>(b.real()));
        return static_cast<long double>(static_cast<decltype(integer_value)>(wide));
      });
  }
}

template <class Reference>
class binary_test : public elementwise_test {
 protected:
  using operation = typename Reference::operation;

  void expect_right(element_type type, drawn how) {
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
    operation op{.a = a.view(), .b = b.view()};
    const bool has_output = coin();
    const auto y = make(type, common);
    if (has_output) op.y = y.view();
    const auto result = run(test_executor(), op);
    EXPECT_EQ(result.shape(), common);
    EXPECT_EQ(result.type(), type);
    expect_elements(result,
                    [&](const extents& i) { return reference<Reference>(type, a[i], b[i]); });
    if (has_output) expect_gaps_untouched(y);
  }
  void expect_all_types_right() {
    for (const auto type : all_element_types) {
      if (is_complex_type(type) && !Reference::takes_complex) continue;
      SCOPED_TRACE(to_string(type));
      for (int round = 0; round < 12; ++round) expect_right(type, drawn::numbers);
    }
  }
  void expect_long_rows_right() {
    // f32 without gaps has a kernel of its own.
    for (const std::int64_t count : {1, 3, 4, 5, 1023, 1024, 70'001}) {
      for (const std::int64_t offset : {0, 1, 4}) {
        const auto a = make_contiguous(element_type::f32, {count + offset});
        const auto b = make_contiguous(element_type::f32, {count + 4});
        const operation op{.a = a.view().slice(0, offset, count + offset),
                           .b = b.view().slice(0, 4, count + 4)};
        expect_elements(run(test_executor(), op), [&](const extents& i) {
          return reference<Reference>(element_type::f32, a[{i[0] + offset}], b[{i[0] + 4}]);
        });
      }
    }
  }
  /// Compares all pairs of special values with `expected`, which sees no NaN.
  template <class Expected>
  void expect_special_values_right(const Expected& expected) {
    constexpr float nan = std::numeric_limits<float>::quiet_NaN();
    constexpr float infinite = std::numeric_limits<float>::infinity();
    const std::vector<float> values{nan, infinite, -infinite, 0.0F, -0.0F, 1, -1};
    const auto count = static_cast<std::int64_t>(values.size());
    auto a = make_contiguous(element_type::f32, {count, 1});
    auto b = make_contiguous(element_type::f32, {count});
    a.set(values);
    b.set(values);
    const auto y = run(test_executor(), operation{.a = a.view(), .b = b.view()});
    expect_elements(y, [&](const extents& i) -> number {
      const auto u = a[i].real();
      const auto v = b[{i[1]}].real();
      return std::isnan(u) || std::isnan(v) ? static_cast<long double>(nan) : expected(u, v);
    });
  }
  void expect_in_place_right() {
    for (const bool over_a : {true, false}) {
      const auto a = make(element_type::i32, {6, 7});
      const auto b = make(element_type::i32, {6, 7});
      const auto& y = over_a ? a : b;
      EXPECT_EQ(run(test_executor(), operation{.a = a.view(), .b = b.view(), .y = y.view()}),
                y.view());
      expect_elements(y.view(), [&](const extents& i) {
        return reference<Reference>(element_type::i32, a[i], b[i]);
      });
      expect_gaps_untouched(y);
    }
    for (const auto& shape : {extents{6, 7}, extents{}, extents{0, 3}, extents{5000}}) {
      const auto x = make(element_type::i32, shape);
      EXPECT_EQ(run(test_executor(), operation{.a = x.view(), .b = x.view(), .y = x.view()}),
                x.view());
      expect_elements(x.view(), [&](const extents& i) {
        return reference<Reference>(element_type::i32, x[i], x[i]);
      });
      expect_gaps_untouched(x);
    }
    const auto flat = make_contiguous(element_type::f32, {5003});
    (void)run(test_executor(), operation{.a = flat.view(), .b = flat.view(), .y = flat.view()});
    expect_elements(flat.view(), [&](const extents& i) {
      return reference<Reference>(element_type::f32, flat[i], flat[i]);
    });
  }
};

using add_operation = binary_test<add_reference>;
using subtract_operation = binary_test<subtract_reference>;
using multiply_operation = binary_test<multiply_reference>;
using maximum_operation = binary_test<maximum_reference>;
using minimum_operation = binary_test<minimum_reference>;

#define SLUICE_TEST_BINARY(suite)                  \
  TEST_P(suite, of_all_types_shapes_and_strides) { \
    this->expect_all_types_right();                \
  }                                                \
  TEST_P(suite, of_rows_without_gaps) {            \
    this->expect_long_rows_right();                \
  }                                                \
  TEST_P(suite, in_place) {                        \
    this->expect_in_place_right();                 \
  }                                                \
  INSTANTIATE_TEST_SUITE_P(devices, suite, every_device(), parameter_name)

SLUICE_TEST_BINARY(add_operation);
SLUICE_TEST_BINARY(subtract_operation);
SLUICE_TEST_BINARY(multiply_operation);
SLUICE_TEST_BINARY(maximum_operation);
SLUICE_TEST_BINARY(minimum_operation);

TEST_P(maximum_operation, of_special_values) {
  expect_special_values_right([](long double u, long double v) {
    if (u == 0 && v == 0) return std::signbit(u) && std::signbit(v) ? -0.0L : 0.0L;
    return std::max(u, v);
  });
}

TEST_P(minimum_operation, of_special_values) {
  expect_special_values_right([](long double u, long double v) {
    if (u == 0 && v == 0) return std::signbit(u) || std::signbit(v) ? -0.0L : 0.0L;
    return std::min(u, v);
  });
}

}  // namespace
}  // namespace sluice::test
