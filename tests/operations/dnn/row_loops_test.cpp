// SPDX-License-Identifier: Apache-2.0
// The loops of normalizations over f32, with each kind of vectors that the processor has.
#include "operations/dnn/row_loops.hpp"

#include "operations/dnn/typed_row_loops.hpp"
#include "tests/operations/every_vector_target.hpp"
#include "tests/support/seed.hpp"

#include <gtest/gtest.h>
#include <hwy/aligned_allocator.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <random>
#include <vector>

namespace sluice::test {
namespace {

class row_loops : public ::testing::Test {
 protected:
  std::vector<float> numbers(std::size_t count, float smallest, float largest) {
    std::vector<float> all(count);
    for (auto& x : all) x = std::uniform_real_distribution<float>(smallest, largest)(random_);
    return all;
  }
  /// Counts around whole vectors and around the blocks of sums.
  static constexpr auto counts = {0, 1, 3, 4, 7, 8, 15, 16, 17, 31, 33, 64, 255, 256, 257, 1000};

 private:
  std::mt19937_64 random_ = make_generator();
};

TEST_F(row_loops, exponentials) {
  for (const std::size_t n : counts) {
    auto x = numbers(n, -110, 0);
    if (n > 3) x[2] = -std::numeric_limits<float>::infinity();
    const float shift = n > 0 ? *std::max_element(x.begin(), x.end()) : 0;
    long double total = 0;
    for (const float value : x) total += std::exp(static_cast<long double>(value) - shift);
    for_each_vector_target([&] {
      std::vector<float> y(n, -1);
      const auto count = static_cast<std::int64_t>(n);
      const double sum = host::exponentials_f32(x.data(), count, shift, y.data());
      EXPECT_NEAR(sum, static_cast<double>(total), static_cast<double>(total) * 1e-6) << n;
      EXPECT_EQ(host::exponentials_f32(x.data(), count, shift, nullptr), sum);
      for (std::size_t i = 0; i < n; ++i) {
        // The difference is rounded. Two units in the last place, or the least number.
        const auto expected = static_cast<double>(std::exp(static_cast<long double>(x[i] - shift)));
        EXPECT_NEAR(y[i], expected, expected * 0x1p-22 + 0x1p-149) << x[i];
        if (std::isinf(x[i])) {
          EXPECT_EQ(y[i], 0);
        }
      }
    });
  }
}

TEST_F(row_loops, exponentials_of_columns) {
  constexpr float infinite = std::numeric_limits<float>::infinity();
  for (const std::size_t n : counts) {
    for (const std::size_t rows : {0, 1, 2, 3, 4, 5, 8, 11}) {
      const auto distance = n + 3;
      auto x = numbers(rows * distance, -110, 0);
      std::vector<float> shifts(n);
      std::vector<long double> totals(n, 0.5L);
      for (std::size_t i = 0; i < n; ++i) {
        shifts[i] = -infinite;
        if (rows > 1 && i % 5 == 1) x[i] = -infinite;
        if (rows > 0 && i % 17 == 16) x[(rows - 1) * distance + i] = std::nanf("");
        for (std::size_t row = 0; row < rows; ++row) {
          shifts[i] = std::fmax(shifts[i], x[row * distance + i]);
        }
        for (std::size_t row = 0; row < rows; ++row) {
          totals[i] += std::exp(static_cast<long double>(x[row * distance + i]) - shifts[i]);
        }
      }
      const host::f32_rows source{x.data(), static_cast<std::int64_t>(distance),
                                  static_cast<std::int64_t>(rows)};
      const auto count = static_cast<std::int64_t>(n);
      for_each_vector_target([&] {
        std::vector<double> sums(n, 0.5);
        std::vector<float> y(rows * (n + 1), -1);
        host::exponentials_of_columns_f32(source, count, shifts.data(), y.data(), count + 1,
                                          sums.data());
        std::vector<double> other_sums(n, 0.5);
        host::exponentials_of_columns_f32(source, count, shifts.data(), nullptr, 0,
                                          other_sums.data());
        for (std::size_t i = 0; i < n; ++i) {
          if (std::isnan(totals[i])) {
            EXPECT_TRUE(std::isnan(sums[i]) && std::isnan(other_sums[i]));
          } else {
            EXPECT_NEAR(sums[i], static_cast<double>(totals[i]),
                        static_cast<double>(totals[i]) * 1e-6);
            EXPECT_EQ(sums[i], other_sums[i]);
          }
          for (std::size_t row = 0; row < rows; ++row) {
            const auto value = x[row * distance + i];
            const auto power = y[row * (n + 1) + i];
            const auto expected =
                static_cast<double>(std::exp(static_cast<long double>(value) - shifts[i]));
            if (std::isnan(expected)) {
              EXPECT_TRUE(std::isnan(power));
              continue;
            }
            EXPECT_NEAR(power, expected, expected * 1e-5 + 1e-44) << value;
          }
        }
        for (std::size_t row = 0; row < rows; ++row) EXPECT_EQ(y[row * (n + 1) + n], -1);
        auto in_place = x;
        std::fill(other_sums.begin(), other_sums.end(), 0.5);
        host::exponentials_of_columns_f32({in_place.data(), source.distance, source.rows}, count,
                                          shifts.data(), in_place.data(), source.distance,
                                          other_sums.data());
        for (std::size_t row = 0; row < rows; ++row) {
          for (std::size_t i = 0; i < n; ++i) {
            const auto power = y[row * (n + 1) + i];
            const auto other = in_place[row * distance + i];
            EXPECT_TRUE(power == other || (std::isnan(power) && std::isnan(other)));
          }
        }
      });
    }
  }
}

TEST_F(row_loops, exponentials_of_nan) {
  for (const std::size_t n : {1, 5, 16, 40}) {
    auto x = numbers(n, -3, 0);
    x[n / 2] = std::numeric_limits<float>::quiet_NaN();
    for_each_vector_target([&] {
      std::vector<float> y(n);
      EXPECT_TRUE(
          std::isnan(host::exponentials_f32(x.data(), static_cast<std::int64_t>(n), 0, y.data())));
      for (std::size_t i = 0; i < n; ++i) EXPECT_EQ(std::isnan(y[i]), i == n / 2);
    });
  }
}

TEST_F(row_loops, largest_numbers) {
  for (const std::size_t n : counts) {
    auto x = numbers(n, -3, 3);
    const float largest = n > 0 ? *std::max_element(x.begin(), x.end()) : -INFINITY;
    const std::vector<float> lowest(n, -INFINITY);
    for_each_vector_target([&] {
      const auto count = static_cast<std::int64_t>(n);
      EXPECT_EQ(host::largest_number_f32(x.data(), count), largest) << n;
      // With vectors of one element, which are never the best, the lowest number.
      EXPECT_LE(host::largest_number_f32(lowest.data(), count),
                std::numeric_limits<float>::lowest());
    });
  }
}

TEST_F(row_loops, deviations) {
  for (const std::size_t n : counts) {
    const auto x = numbers(n, 99, 101);
    long double differences = 0;
    long double squares = 0;
    for (const float value : x) {
      differences += static_cast<long double>(value) - 100;
      squares += (static_cast<long double>(value) - 100) * (static_cast<long double>(value) - 100);
    }
    for_each_vector_target([&] {
      const auto found = host::deviations_f32(x.data(), static_cast<std::int64_t>(n), 100);
      EXPECT_NEAR(found.differences, static_cast<double>(differences),
                  1e-6 * static_cast<double>(n));
      EXPECT_NEAR(found.squares, static_cast<double>(squares),
                  1e-6 * static_cast<double>(squares) + 1e-12);
    });
  }
}

// The squares of 256 elements have a sum in f32, those of all have none.
TEST_F(row_loops, deviations_of_large_numbers) {
  for (const std::size_t n : {1024, 5000}) {
    const auto x = numbers(n, 0.9e18F, 1.1e18F);
    long double squares = 0;
    for (const float value : x) squares += static_cast<long double>(value) * value;
    for_each_vector_target([&] {
      const auto found = host::deviations_f32(x.data(), static_cast<std::int64_t>(n), 0);
      EXPECT_NEAR(found.squares, static_cast<double>(squares), 1e-6 * static_cast<double>(squares));
    });
  }
}

// Zeros keep their sign, wherever the result lies.
TEST_F(row_loops, products_of_zeros) {
  const auto bits = [](const float* x, std::size_t n) {
    std::vector<std::uint32_t> all(n);
    std::transform(x, x + n, all.begin(), [](float v) { return std::bit_cast<std::uint32_t>(v); });
    return all;
  };
  for (const std::size_t n : counts) {
    auto x = numbers(n, -2, 2);
    for (std::size_t i = 0; i < n; i += 3) x[i] = i % 2 == 0 ? -0.0F : 0.0F;
    std::vector<float> products(n);
    for (std::size_t i = 0; i < n; ++i) products[i] = x[i] * 3.0F;
    const auto expected = bits(products.data(), n);
    for_each_vector_target([&] {
      const hwy::AlignedFreeUniquePtr<float[]> memory = hwy::AllocateAligned<float>(n + 1);
      for (const bool is_streamed : {false, true}) {
        for (const std::int64_t first : {0, 1}) {
          float* const y = memory.get() + first;
          host::map_row_f32({.factor = 3, .is_streamed = is_streamed}, x.data(),
                            static_cast<std::int64_t>(n), y);
          EXPECT_EQ(bits(y, n), expected) << n << " elements, first " << first;
        }
      }
    });
  }
}

TEST_F(row_loops, maps_of_zeros_without_a_bias) {
  const auto expect_signs = [](const auto& map_row, auto scale) {
    using number = decltype(scale);
    const std::vector<number> scales(20, scale);
    std::vector<number> x(20, number{0});
    for (std::size_t i = 0; i < x.size(); i += 3) x[i] = -x[i];
    host::row_map<number> map;
    map.scale = scales.data();
    std::vector<number> y(x.size(), 1);
    map_row(map, x.data(), static_cast<std::int64_t>(x.size()), y.data());
    for (std::size_t i = 0; i < x.size(); ++i) {
      EXPECT_EQ(y[i], 0) << i;
      EXPECT_EQ(std::signbit(y[i]), i % 3 == 0) << i;
    }
  };
  for_each_vector_target([&] { expect_signs(host::map_row_f32, 2.0F); });
  expect_signs(host::row_loops<double>::map, 2.0);
}

TEST_F(row_loops, maps) {
  for (const std::size_t n : counts) {
    const auto x = numbers(n, -2, 2);
    const auto scale = numbers(n, -2, 2);
    const auto bias = numbers(n, -2, 2);
    for (int kind = 0; kind < 4; ++kind) {
      host::row_map<float> map{.shift = 0.5F,
                               .residual = 0.25F,
                               .factor = 3,
                               .constant_scale = 0.75F,
                               .constant_bias = -2};
      if (kind % 2 == 1) map.scale = scale.data();
      if (kind / 2 == 1) map.bias = bias.data();
      for_each_vector_target([&] {
        auto y = x;  // in place
        host::map_row_f32(map, y.data(), static_cast<std::int64_t>(n), y.data());
        // Past the caches, from an address of a vector and from one between two.
        auto streamed = map;
        streamed.is_streamed = true;
        const hwy::AlignedFreeUniquePtr<float[]> memory = hwy::AllocateAligned<float>(n + 1);
        for (const std::int64_t first : {0, 1}) {
          float* const result = memory.get() + first;
          host::map_row_f32(streamed, x.data(), static_cast<std::int64_t>(n), result);
          EXPECT_TRUE(std::equal(y.begin(), y.end(), result));
        }
        for (std::size_t i = 0; i < n; ++i) {
          const double s = kind % 2 == 1 ? scale[i] : 0.75F;
          const double b = kind / 2 == 1 ? bias[i] : -2;
          EXPECT_NEAR(y[i], (static_cast<double>(x[i]) - 0.75) * 3 * s + b, 1e-5) << kind;
        }
      });
    }
  }
}

TEST_F(row_loops, of_f64_and_every_second_element) {
  for (const std::size_t n : counts) {
    const auto numbers_f32 = numbers(2 * n + 1, -1, 1);
    const std::vector<double> x(numbers_f32.begin(), numbers_f32.end());
    const auto count = static_cast<std::int64_t>(n);
    for_each_vector_target([&] {
      std::vector<double> sums(n, 0.25);
      host::add_f64(x.data(), count, sums.data());
      std::vector<float> scaled(n);
      host::scale_f64(x.data(), count, 1.0 / 3, scaled.data());
      std::vector<float> halves(n);
      host::every_second(numbers_f32.data(), count, halves.data());
      std::vector<double> halves_f64(n);
      host::every_second(x.data(), count, halves_f64.data());
      for (std::size_t i = 0; i < n; ++i) {
        EXPECT_EQ(sums[i], x[i] + 0.25);
        EXPECT_EQ(scaled[i], static_cast<float>(x[i] * (1.0 / 3)));
        EXPECT_EQ(halves[i], numbers_f32[2 * i]);
        EXPECT_EQ(halves_f64[i], x[2 * i]);
      }
    });
  }
}

}  // namespace
}  // namespace sluice::test
