// SPDX-License-Identifier: Apache-2.0
// The loops of the host device over f32, with each kind of vectors that the processor has, beside
// the functions of one element.
#include "operations/elementwise/f32_loops.hpp"

#include "tests/operations/elementwise/function_references.hpp"
#include "tests/operations/every_vector_target.hpp"
#include "tests/support/seed.hpp"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <random>
#include <vector>

namespace sluice::test {
namespace {

using namespace operations;
using host::sum_term;

constexpr std::size_t largest_element = 16;

class f32_loops : public ::testing::Test {
 protected:
  std::int64_t between(std::int64_t first, std::int64_t last) {
    return std::uniform_int_distribution(first, last)(random_);
  }
  /// Counts around whole vectors, and larger ones.
  std::int64_t count() { return between(0, 3) == 0 ? between(200, 700) : between(0, 80); }
  std::vector<std::byte> bytes(std::int64_t size) {
    std::vector<std::byte> all(static_cast<std::size_t>(size));
    for (auto& byte : all) byte = static_cast<std::byte>(random_());
    return all;
  }
  /// f32 of all kinds: any bits, numbers of the range of small integers, and zeros of both signs.
  std::vector<float> floats(std::int64_t size) {
    std::vector<float> all(static_cast<std::size_t>(size));
    for (auto& value : all) {
      switch (between(0, 5)) {
        case 0:
          value = std::bit_cast<float>(static_cast<std::uint32_t>(random_()));
          break;
        case 1:
          value = between(0, 1) == 0 ? 0.0F : -0.0F;
          break;
        case 2:
          value = between(0, 1) == 0 ? INFINITY : -INFINITY;
          break;
        default:
          value = std::uniform_real_distribution<float>(-400, 400)(random_);
      }
    }
    return all;
  }
  std::vector<float> finite_floats(std::int64_t size) {
    std::vector<float> all(static_cast<std::size_t>(size));
    for (auto& value : all) value = std::uniform_real_distribution<float>(-400, 400)(random_);
    return all;
  }
  /// Equal bits, or two NaN.
  static bool same(float a, float b) {
    return std::bit_cast<std::uint32_t>(a) == std::bit_cast<std::uint32_t>(b) ||
           (std::isnan(a) && std::isnan(b));
  }
  static storage type_of(int index) { return static_cast<storage>(index); }

  template <class Check>
  static void many_times(const Check& check) {
    for (int i = 0; i < 40; ++i) check();
  }

 private:
  std::mt19937_64 random_ = make_generator();
};

TEST_F(f32_loops, load_every_type) {
  for (int type = 0; type <= static_cast<int>(storage::f64); ++type) {
    many_times([&] {
      const auto n = count();
      const auto shift = between(0, 3);
      const auto memory = bytes((shift + n) * static_cast<std::int64_t>(largest_element));
      // Aligned to an element only.
      const auto* const source = memory.data() + shift * 8;
      for_each_vector_target([&] {
        std::vector<float> loaded(static_cast<std::size_t>(n + 1), 7.0F);
        host::load_f32(type_of(type), source, n, loaded.data());
        for (std::int64_t i = 0; i < n; ++i) {
          ASSERT_TRUE(
              same(loaded[static_cast<std::size_t>(i)], load<float>(type_of(type), source, i)))
              << "type " << type << " element " << i << " of " << n;
        }
        EXPECT_EQ(loaded.back(), 7.0F);
      });
    });
  }
}

TEST_F(f32_loops, store_every_type) {
  for (int type = 0; type <= static_cast<int>(storage::c128); ++type) {
    many_times([&] {
      const auto n = count();
      const auto values = floats(n);
      const auto before = bytes((n + 1) * static_cast<std::int64_t>(largest_element));
      auto expected = before;
      for (std::int64_t i = 0; i < n; ++i) {
        store<overflow::saturates>(type_of(type), expected.data(), i,
                                   values[static_cast<std::size_t>(i)]);
      }
      for_each_vector_target([&] {
        auto stored = before;
        host::store_f32(type_of(type), values.data(), n, stored.data());
        EXPECT_EQ(stored, expected) << "type " << type << ", " << n << " elements";
      });
    });
  }
}

// Every f32 beside the middle of two neighbours of f16, and the limits of its range.
TEST_F(f32_loops, store_every_f16) {
  std::vector<float> values;
  for (std::uint32_t bits = 0; bits < 1U << 16U; ++bits) {
    f16 half;
    half.bits = static_cast<std::uint16_t>(bits);
    const auto exact = std::bit_cast<std::uint32_t>(static_cast<float>(half));
    for (const std::uint32_t beside : {0U, 0xfffU, 0x1000U, 0x1001U}) {
      values.push_back(std::bit_cast<float>(exact + beside));
    }
  }
  for_each_vector_target([&] {
    std::vector<f16> halves(values.size());
    host::store_f32(storage::f16, values.data(), std::ssize(values), halves.data());
    for (std::size_t i = 0; i < values.size(); ++i) {
      ASSERT_EQ(halves[i].bits, f16(values[i]).bits) << std::hexfloat << values[i];
    }
  });
}

TEST_F(f32_loops, binary_functions) {
  for (std::size_t k = 0; k < binary_function_count; ++k) {
    const auto function = static_cast<binary_function>(k);
    if (function >= binary_function::bitwise_and) continue;  // of integers
    many_times([&] {
      const auto n = count();
      const auto a = floats(n);
      const auto b = floats(n);
      for_each_vector_target([&] {
        auto y = b;
        host::binary_f32(function, a.data(), y.data(), n, y.data());
        for (std::size_t i = 0; i < y.size(); ++i) {
          ASSERT_TRUE(same(y[i], apply(function, a[i], b[i])))
              << k << ' ' << a[i] << ' ' << b[i] << " is " << y[i];
        }
      });
    });
  }
}

TEST_F(f32_loops, unary_functions) {
  for (std::size_t k = 0; k < unary_function_count; ++k) {
    const auto f = static_cast<unary_function>(k);
    if (f == unary_function::bitwise_not || f == unary_function::conjugate ||
        f == unary_function::angle) {
      continue;
    }
    const bool has_alpha = f >= unary_function::leaky_relu && f != unary_function::clip;
    const unary_map<float> function(f, has_alpha ? 0.75F : -3.0F, 1.5F);
    const auto bound = bound_of(f, element_type::f32, error_bounds());
    many_times([&] {
      const auto n = count();
      const auto x = floats(n);
      for_each_vector_target([&] {
        auto y = x;
        host::unary_f32(function, y.data(), n, y.data());
        for (std::size_t i = 0; i < y.size(); ++i) {
          const auto expected = real_reference(f, x[i], function.alpha, function.beta);
          const bool has_same_value = static_cast<long double>(y[i]) == expected;
          ASSERT_TRUE(has_same_value || is_near(element_type::f32, y[i], expected, bound,
                                                is_relative_to_argument(f) ? x[i] : 0))
              << k << " of " << std::hexfloat << x[i] << " is " << y[i];
        }
      });
    });
  }
}

// Vectors without an argument that takes the function of one element.
TEST_F(f32_loops, unary_functions_of_small_numbers) {
  using function = unary_function;
  for (const auto f : {function::exp, function::exp2, function::cosh, function::sigmoid,
                       function::silu, function::softplus, function::mish, function::erf,
                       function::gelu, function::gelu_tanh, function::tanh, function::elu}) {
    const auto bound = bound_of(f, element_type::f32, error_bounds());
    many_times([&] {
      const auto n = between(0, 700);
      // With a large parameter, silu takes the exponential of numbers beyond its range.
      const float alpha = between(0, 1) == 0 ? 1.0F : 1.75F;
      const unary_map<float> map(f, alpha, 0);
      const float largest = f == unary_function::gelu_tanh || between(0, 1) == 0 ? 9.0F : 86.0F;
      auto x = finite_floats(n);
      for (auto& value : x) value *= largest / 400;
      for_each_vector_target([&] {
        std::vector<float> y(x.size());
        host::unary_f32(map, x.data(), n, y.data());
        for (std::size_t i = 0; i < y.size(); ++i) {
          const auto expected = real_reference(f, x[i], map.alpha, map.beta);
          ASSERT_TRUE(is_near(element_type::f32, y[i], expected, bound,
                              is_relative_to_argument(f) ? x[i] : 0))
              << static_cast<int>(f) << " of " << std::hexfloat << x[i] << " is " << y[i];
          float alone = 0;
          host::unary_f32(map, &x[i], 1, &alone);
          ASSERT_TRUE(same(y[i], alone)) << "element " << i << " of " << n;
        }
      });
    });
  }
}

// Where they are exponential or linear functions, and round to subnormal numbers, 0 or infinity.
TEST_F(f32_loops, unary_functions_of_large_numbers) {
  using function = unary_function;
  for (const auto f : {function::exp, function::exp2, function::expm1, function::sinh,
                       function::cosh, function::sigmoid, function::silu, function::softplus,
                       function::mish, function::gelu_tanh, function::elu, function::selu}) {
    const auto bound = bound_of(f, element_type::f32, error_bounds());
    many_times([&] {
      // Of silu, this is the factor of the logistic function's argument.
      const float alpha = f == function::silu && between(0, 1) == 0 ? 1.75F : 1;
      const unary_map<float> map(f, alpha, 1.25F);
      const auto n = between(1, 300);
      auto x = finite_floats(n);
      const float smallest = f == function::gelu_tanh ? 10 : f == function::exp2 ? 126 : 87;
      for (auto& value : x) value = std::copysign(smallest + std::abs(value) / 16, value);
      for_each_vector_target([&] {
        std::vector<float> y(x.size());
        host::unary_f32(map, x.data(), n, y.data());
        for (std::size_t i = 0; i < y.size(); ++i) {
          const auto expected = real_reference(f, x[i], map.alpha, map.beta);
          const bool overflows = std::abs(expected) > std::numeric_limits<float>::max();
          ASSERT_TRUE(overflows ? std::isinf(y[i]) && std::signbit(y[i]) == std::signbit(expected)
                                : is_near(element_type::f32, y[i], expected, bound,
                                          is_relative_to_argument(f) ? x[i] : 0))
              << static_cast<int>(f) << " of " << std::hexfloat << x[i] << " is " << y[i];
        }
      });
    });
  }
}

TEST_F(f32_loops, zeros_keep_their_sign) {
  using function = unary_function;
  for (const auto f : {function::gelu, function::gelu_tanh, function::silu, function::mish,
                       function::tanh, function::erf, function::sinh, function::expm1}) {
    const unary_map<float> map(f, 1, 0);
    for_each_vector_target([&] {
      for (const float zero : {0.0F, -0.0F}) {
        float y = 1;
        host::unary_f32(map, &zero, 1, &y);
        EXPECT_EQ(y, 0) << static_cast<int>(f);
        EXPECT_EQ(std::signbit(y), std::signbit(zero)) << static_cast<int>(f);
      }
    });
  }
}

TEST_F(f32_loops, silu_with_a_parameter_of_no_size) {
  for (const float alpha : {NAN, INFINITY, -INFINITY}) {
    const unary_map<float> map(unary_function::silu, alpha, 0);
    auto x = finite_floats(between(100, 300));
    for (auto& value : x) value = between(0, 9) == 0 ? 0.0F : value / 5;
    for_each_vector_target([&] {
      std::vector<float> y(x.size());
      host::unary_f32(map, x.data(), std::ssize(x), y.data());
      for (std::size_t i = 0; i < y.size(); ++i) {
        const bool is_nan = std::isnan(alpha * x[i]);
        ASSERT_EQ(std::isnan(y[i]), is_nan) << alpha << " and " << x[i] << " give " << y[i];
      }
    });
  }
}

TEST_F(f32_loops, affine) {
  many_times([&] {
    const auto n = count();
    const auto x = floats(n);
    const auto scale = floats(n);
    const auto bias = floats(n);
    const scaled_and_shifted<float> function(2.5F, -0.75F);
    for (const bool scales : {false, true}) {
      for (const bool shifts : {false, true}) {
        for_each_vector_target([&] {
          auto y = x;
          host::affine_f32(function, y.data(), scales ? scale.data() : nullptr,
                           shifts ? bias.data() : nullptr, n, y.data());
          for (std::size_t i = 0; i < y.size(); ++i) {
            const float expected = function(x[i], scales ? scale[i] : function.factor,
                                            shifts ? bias[i] : function.offset);
            ASSERT_TRUE(same(y[i], expected)) << x[i] << " is " << y[i];
          }
        });
      }
    }
  });
}

TEST_F(f32_loops, sums) {
  many_times([&] {
    const auto n = count();
    const auto x = finite_floats(n);
    long double sum = 0;
    long double magnitudes = 0;
    long double squares = 0;
    for (const float value : x) {
      sum += value;
      magnitudes += std::fabs(value);
      squares += static_cast<long double>(value) * value;
    }
    for_each_vector_target([&] {
      const auto expect_sum = [&](sum_term term, long double expected, long double size) {
        EXPECT_NEAR(host::sum_f32(term, x.data(), n), static_cast<double>(expected),
                    static_cast<double>(size) * 1e-14);
      };
      expect_sum(sum_term::number, sum, magnitudes);
      expect_sum(sum_term::magnitude, magnitudes, magnitudes);
      expect_sum(sum_term::square, squares, squares);
    });
  });
}

TEST_F(f32_loops, sums_and_extrema_of_rows) {
  many_times([&] {
    const auto n = count();
    const auto rows = between(0, 11);
    const auto distance = n + between(0, 3);
    const auto numbers = finite_floats(rows * distance + n);
    const auto anything = floats(rows * distance + n);
    for_each_vector_target([&] {
      std::vector<double> sums(static_cast<std::size_t>(n), 0.5);
      std::vector<double> squares(static_cast<std::size_t>(n), 0.5);
      std::vector<float> maxima(static_cast<std::size_t>(n), -3.0F);
      std::vector<float> minima(static_cast<std::size_t>(n), 3.0F);
      host::sum_rows_f32(sum_term::number, {numbers.data(), distance, rows}, n, sums.data());
      host::sum_rows_f32(sum_term::square, {numbers.data(), distance, rows}, n, squares.data());
      host::max_rows_f32({anything.data(), distance, rows}, n, maxima.data());
      host::min_rows_f32({anything.data(), distance, rows}, n, minima.data());
      for (std::int64_t i = 0; i < n; ++i) {
        const auto k = static_cast<std::size_t>(i);
        long double sum = 0.5L;
        long double square_sum = 0.5L;
        float largest = -3.0F;
        float smallest = 3.0F;
        for (std::int64_t row = 0; row < rows; ++row) {
          const auto place = static_cast<std::size_t>(row * distance + i);
          sum += numbers[place];
          square_sum += static_cast<long double>(numbers[place]) * numbers[place];
          largest = larger(largest, anything[place]);
          smallest = smaller(smallest, anything[place]);
        }
        EXPECT_NEAR(sums[k], static_cast<double>(sum), 1e-10);
        EXPECT_NEAR(squares[k], static_cast<double>(square_sum), 1e-7);
        EXPECT_TRUE(same(maxima[k], largest)) << largest;
        EXPECT_TRUE(same(minima[k], smallest)) << smallest;
      }
    });
  });
}

TEST_F(f32_loops, extrema_of_nothing_and_of_infinities) {
  for (const std::size_t n : {0, 1, 63, 64, 200}) {
    const std::vector<float> lowest(n, -INFINITY);
    const std::vector<float> highest(n, INFINITY);
    for_each_vector_target([&] {
      const auto count = static_cast<std::int64_t>(n);
      EXPECT_EQ(host::max_f32(lowest.data(), count), -INFINITY) << n;
      EXPECT_EQ(host::min_f32(highest.data(), count), INFINITY) << n;
    });
  }
}

TEST_F(f32_loops, extrema) {
  many_times([&] {
    const auto n = count();
    auto x = finite_floats(n);
    const auto kind = between(0, 3);
    for (auto& value : x) {
      // All below 0; zeros of both signs; anything.
      if (kind == 0) value = -std::fabs(value);
      if (kind == 1) value = between(0, 20) == 0 ? 0.0F : -0.0F;
      if (kind == 2) value = -0.0F;
    }
    if (kind == 3 && n > 0 && between(0, 1) == 0) {
      x[static_cast<std::size_t>(between(0, n - 1))] = std::numeric_limits<float>::quiet_NaN();
    }
    std::vector<float> opposite;
    float largest = -INFINITY;
    for (const float value : x) {
      largest = larger(largest, value);
      opposite.push_back(-value);
    }
    for_each_vector_target([&] {
      const float found = host::max_f32(x.data(), n);
      EXPECT_TRUE(same(found, largest)) << found << " instead of " << largest;
      const float smallest = host::min_f32(opposite.data(), n);
      EXPECT_TRUE(same(smallest, -largest)) << smallest << " instead of " << -largest;
    });
  });
}

}  // namespace
}  // namespace sluice::test
