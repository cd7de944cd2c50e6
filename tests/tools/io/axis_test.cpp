// SPDX-License-Identifier: Apache-2.0
#include "tools/io/axis.hpp"

#include "tests/support/seed.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <random>
#include <string>
#include <vector>

namespace sluice::io {
namespace {

std::vector<std::string> labels(double low, double high, int most) {
  std::vector<std::string> found;
  for (const auto& tick : linear_ticks(low, high, most)) found.push_back(tick.label);
  return found;
}

TEST(Axis, RoundNumbersHaveTheSmallestStepThatFits) {
  using texts = std::vector<std::string>;
  EXPECT_EQ(labels(0, 1.43, 11), (texts{"0", "0.2", "0.4", "0.6", "0.8", "1", "1.2", "1.4"}));
  EXPECT_EQ(labels(-80, 0, 9),
            (texts{"-80", "-70", "-60", "-50", "-40", "-30", "-20", "-10", "0"}));
  EXPECT_EQ(labels(-80, 0, 8), (texts{"-80", "-60", "-40", "-20", "0"}));
  EXPECT_EQ(labels(0, 3600, 6), (texts{"0", "1000", "2000", "3000"}));
  EXPECT_EQ(labels(3999.999, 4000.001, 3), (texts{"3999.999", "4000", "4000.001"}));
  EXPECT_EQ(labels(0.1, 0.3, 3), (texts{"0.1", "0.2", "0.3"}));
  EXPECT_EQ(labels(7, 8, 1), (texts{"8"}));
  EXPECT_EQ(labels(-1e-3, 1e-3, 3), (texts{"-0.001", "0", "0.001"}));
}

TEST(Axis, RoundNumbersOfAnyRangeAreInside) {
  auto generator = test::make_generator();
  std::uniform_real_distribution<double> uniform(-1, 1);
  for (int i = 0; i < 2000; ++i) {
    const double low = uniform(generator) * std::pow(10, 12 * uniform(generator));
    const double high = low + std::pow(10, 9 * uniform(generator));
    if (high - low <= 1e-7 * std::max(std::abs(low), std::abs(high))) continue;
    const int most = 2 + i % 12;
    const auto numbers = round_numbers(low, high, most);
    SCOPED_TRACE(std::to_string(low) + ", " + std::to_string(high - low));
    EXPECT_LE(numbers.size(), static_cast<std::size_t>(most));
    const double slack = 1e-6 * (high - low) + 1e-12 * std::abs(low);
    for (std::size_t k = 0; k < numbers.size(); ++k) {
      EXPECT_GE(numbers[k], low - slack);
      EXPECT_LE(numbers[k], high + slack);
      if (k > 0) {
        EXPECT_GT(numbers[k], numbers[k - 1]);
        EXPECT_NE(number_text(numbers[k]), number_text(numbers[k - 1]));
      }
    }
  }
}

TEST(Axis, RangesWithoutNumbers) {
  const double infinite = std::numeric_limits<double>::infinity();
  const double nan = std::numeric_limits<double>::quiet_NaN();
  EXPECT_TRUE(round_numbers(1, 1, 5).empty());
  EXPECT_TRUE(round_numbers(2, 1, 5).empty());
  EXPECT_TRUE(round_numbers(0, infinite, 5).empty());
  EXPECT_TRUE(round_numbers(-infinite, 0, 5).empty());
  EXPECT_TRUE(round_numbers(0, nan, 5).empty());
  EXPECT_TRUE(round_numbers(nan, 0, 5).empty());
  EXPECT_TRUE(round_numbers(1e17, 1e17 + 32, 5).empty());
  EXPECT_LE(round_numbers(0, std::numeric_limits<double>::max(), 5).size(), 5U);
  EXPECT_LE(round_numbers(0, std::numeric_limits<double>::denorm_min(), 5).size(), 5U);
}

TEST(Axis, LinearTicksAreAtTheirNumbers) {
  const auto ticks = linear_ticks(-80, 20, 6);
  ASSERT_EQ(ticks.size(), 6U);
  EXPECT_EQ(ticks[0].label, "-80");
  EXPECT_DOUBLE_EQ(ticks[0].position, 0);
  EXPECT_EQ(ticks[1].label, "-60");
  EXPECT_DOUBLE_EQ(ticks[1].position, 0.2);
  EXPECT_EQ(ticks[5].label, "20");
  EXPECT_DOUBLE_EQ(ticks[5].position, 1);
}

TEST(Axis, PixelsOfPositions) {
  EXPECT_EQ(pixel_at(0, 100), 0);
  EXPECT_EQ(pixel_at(0.5, 100), 50);
  EXPECT_EQ(pixel_at(1, 100), 99);
  EXPECT_EQ(pixel_at(-0.1, 100), 0);
  EXPECT_EQ(pixel_at(1e9, 100), 99);
}

/// The marks, which are black, lie on the three sides at the pixels of their positions.
TEST(Axis, DrawsMarks) {
  const area part{120, 20, 200, 100};
  const auto draw = [&](axis_side side) {
    picture shown(480, 200);
    draw_axis(shown, part, side, {{0, "0"}, {0.25, "1"}, {1, "4"}}, "title");
    return shown;
  };
  const picture below = draw(axis_side::below);
  for (int x = 0; x < part.width; ++x)
    EXPECT_EQ(below.at(part.x + x, part.y + part.height) == black, x == 0 || x == 50 || x == 199)
        << x;
  const picture left = draw(axis_side::left);
  const picture right = draw(axis_side::right);
  for (int y = 0; y < part.height; ++y) {
    const bool marked = y == 99 || y == 74 || y == 0;
    EXPECT_EQ(left.at(part.x - 1, part.y + y) == black, marked) << y;
    EXPECT_EQ(right.at(part.x + part.width, part.y + y) == black, marked) << y;
  }
}

}  // namespace
}  // namespace sluice::io
