// SPDX-License-Identifier: Apache-2.0
// Softmax along dimensions other than the last: the rows lie side by side.
#include "tests/operations/executing.hpp"
#include "tests/support/seed.hpp"

#include <sluice/operations/elementwise.hpp>
#include <sluice/operations/movement.hpp>
#include <sluice/operations/normalization.hpp>
#include <sluice/operations/transfer.hpp>

#include <gtest/gtest.h>

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <memory>
#include <random>
#include <string>
#include <utility>
#include <vector>

namespace sluice::test {
namespace {

constexpr auto types = {element_type::f32, element_type::f16, element_type::bf16,
                        element_type::f64};

/// The columns of stacked matrices: x[outer, row, column].
struct columns_shape {
  std::int64_t outer;
  std::int64_t rows;
  std::int64_t columns;
  [[nodiscard]] extents shape() const {
    return outer == 1 ? extents{rows, columns} : extents{outer, rows, columns};
  }
  [[nodiscard]] std::int64_t axis() const { return outer == 1 ? 0 : 1; }
};

class softmax_columns : public executor_test {
 protected:
  [[nodiscard]] std::int64_t between(std::int64_t least, std::int64_t most) {
    return std::uniform_int_distribution<std::int64_t>(least, most)(generator_);
  }
  tensor to_device(const std::vector<float>& values, const extents& shape, element_type type) {
    const auto x = run(test_executor(), sluice::upload{.values = host_tensor(values, shape)});
    return run(test_executor(), cast{.x = x, .type = type});
  }
  std::vector<float> to_host(const tensor& x) {
    const auto target = std::make_shared<host_tensor>();
    const auto wide = run(test_executor(), cast{.x = x, .type = element_type::f32});
    const auto whole = run(test_executor(), strided_copy{.x = wide});
    (void)run(test_executor(), sluice::download{.x = whole, .target = target});
    return target->to_vector<float>();
  }

  /// Numbers, of which columns are masked in part or as a whole, or have NaN or infinity.
  std::vector<float> draw(const columns_shape& s, bool has_specials) {
    constexpr float infinite = std::numeric_limits<float>::infinity();
    std::vector<float> x(static_cast<std::size_t>(s.outer * s.rows * s.columns));
    for (auto& value : x) value = std::uniform_real_distribution<float>(-30, 30)(generator_);
    if (!has_specials) return x;
    for (std::int64_t i = 0; i < s.outer; ++i) {
      for (std::int64_t column = 0; column < s.columns; ++column) {
        const auto element = [&](std::int64_t row) -> float& {
          return x[static_cast<std::size_t>((i * s.rows + row) * s.columns + column)];
        };
        const auto kind = between(0, 9);
        const auto row = between(0, s.rows - 1);
        if (kind == 0) element(row) = std::numeric_limits<float>::quiet_NaN();
        if (kind == 1) element(row) = infinite;
        if (kind == 2) element(row) = 60'000;
        for (std::int64_t k = 0; k < s.rows; ++k) {
          if (kind == 3 || (kind > 5 && between(0, 2) == 0)) element(k) = -infinite;
        }
      }
    }
    return x;
  }
  /// The softmax of each column, or its logarithm, computed here.
  static std::vector<long double> expected(const std::vector<float>& x, const columns_shape& s,
                                           bool is_logarithm) {
    std::vector<long double> y(x.size());
    for (std::int64_t i = 0; i < s.outer; ++i) {
      for (std::int64_t column = 0; column < s.columns; ++column) {
        const auto index = [&](std::int64_t row) {
          return static_cast<std::size_t>((i * s.rows + row) * s.columns + column);
        };
        long double largest = -std::numeric_limits<long double>::infinity();
        for (std::int64_t k = 0; k < s.rows; ++k) {
          largest = std::fmax(largest, static_cast<long double>(x[index(k)]));
        }
        long double total = 0;
        for (std::int64_t k = 0; k < s.rows; ++k) total += std::exp(x[index(k)] - largest);
        for (std::int64_t k = 0; k < s.rows; ++k) {
          const auto difference = x[index(k)] - largest;
          y[index(k)] = is_logarithm ? difference - std::log(total) : std::exp(difference) / total;
        }
      }
    }
    return y;
  }
  static void expect_close(element_type type, const std::vector<float>& y,
                           const std::vector<float>& x, const std::vector<long double>& wanted,
                           bool is_logarithm) {
    const long double rounding = type == element_type::f16    ? 0x1p-10L
                                 : type == element_type::bf16 ? 0x1p-7L
                                                              : 1e-5L;
    // Numbers below the normal ones of f16.
    const long double least = type == element_type::f16 ? 0x1p-24L : 1e-37L;
    ASSERT_EQ(y.size(), wanted.size());
    for (std::size_t i = 0; i < y.size(); ++i) {
      const auto value = static_cast<long double>(y[i]);
      if (std::isnan(wanted[i]) || std::isinf(wanted[i])) {
        EXPECT_TRUE(std::isnan(wanted[i]) ? std::isnan(value) : value == wanted[i])
            << value << " of " << x[i] << " is not " << wanted[i];
      } else {
        const auto bound =
            is_logarithm ? rounding * (std::abs(wanted[i]) + 1) : rounding * wanted[i] + least;
        EXPECT_LE(std::abs(value - wanted[i]), bound)
            << value << " of " << x[i] << " is not " << wanted[i];
      }
      if (::testing::Test::HasFailure()) return;
    }
  }
  tensor softmax_of(const tensor& x, std::int64_t axis, bool is_logarithm, const operand& y = {}) {
    return is_logarithm ? run(test_executor(), log_softmax{.x = x, .axis = axis, .y = y})
                        : run(test_executor(), softmax{.x = x, .axis = axis, .y = y});
  }
  /// Compares both functions, with a new result, with one that has gaps, and in place.
  void check(const columns_shape& s, element_type type, bool has_specials) {
    const auto shape = s.shape();
    SCOPED_TRACE(std::string(to_string(type)) + " " + to_string(shape));
    const auto x = to_device(draw(s, has_specials), shape, type);
    const auto rounded = to_host(x);
    auto wide_shape = shape;
    wide_shape[shape.size() - 1] += 5;
    for (const bool is_logarithm : {false, true}) {
      const auto wanted = expected(rounded, s, is_logarithm);
      const auto check_result = [&](const tensor& y) {
        expect_close(type, to_host(y), rounded, wanted, is_logarithm);
      };
      check_result(softmax_of(x, s.axis(), is_logarithm));
      const auto memory = to_device(
          std::vector<float>(static_cast<std::size_t>(s.outer * s.rows * (s.columns + 5)), 7),
          wide_shape, type);
      const auto part = memory.slice(shape.size() - 1, 2, 2 + s.columns);
      check_result(softmax_of(x, s.axis(), is_logarithm, part));
      for (const auto& [first, last] :
           {std::pair<std::int64_t, std::int64_t>{0, 2}, {2 + s.columns, 5 + s.columns}}) {
        for (const float gap : to_host(memory.slice(shape.size() - 1, first, last))) {
          EXPECT_EQ(gap, 7);
        }
      }
      (void)run(test_executor(), strided_copy{.x = x, .y = part});
      check_result(softmax_of(part, s.axis(), is_logarithm, part));
    }
  }

 private:
  std::mt19937_64 generator_ = make_generator();
};

TEST_P(softmax_columns, of_all_shapes) {
  const auto shapes = {
      columns_shape{1, 1021, 1}, columns_shape{1, 1, 37},  columns_shape{1, 1, 1},
      columns_shape{1, 13, 15},  columns_shape{1, 13, 16}, columns_shape{1, 3, 2053},
      columns_shape{7, 31, 17},  columns_shape{2, 97, 31}, columns_shape{3, 2, 64},
      columns_shape{5, 1, 19},   columns_shape{40, 11, 49}};
  for (const auto& s : shapes) {
    for (const auto type : types) check(s, type, false);
  }
}

TEST_P(softmax_columns, that_are_masked_or_not_finite) {
  for (const auto& s : {columns_shape{1, 61, 1}, columns_shape{1, 61, 127}, columns_shape{3, 7, 67},
                        columns_shape{1, 2, 1100}}) {
    for (const auto type : types) check(s, type, true);
  }
}

// Several threads compute parts.
TEST_P(softmax_columns, of_many_elements) {
  for (const auto type : types) {
    check({1, 331, 1031}, type, false);
    check({1, between(1000, 1500), between(100, 300)}, type, true);
    check({2, between(100, 200), between(600, 900)}, type, true);
  }
}

TEST_P(softmax_columns, of_few_long_columns) {
  for (const auto type : {element_type::f32, element_type::bf16}) {
    check({1, between(90'000, 100'000), 5}, type, false);
  }
  // Too long to be computed together.
  for (const auto type : {element_type::f16, element_type::f64}) {
    check({1, between(140'000, 150'000), 3}, type, false);
  }
}

INSTANTIATE_TEST_SUITE_P(devices, softmax_columns, every_device(), parameter_name);

}  // namespace
}  // namespace sluice::test
