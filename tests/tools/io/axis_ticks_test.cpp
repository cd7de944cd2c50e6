// SPDX-License-Identifier: Apache-2.0
#include "tools/io/axis_ticks.hpp"

#include "tests/support/seed.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <random>
#include <string>
#include <vector>

namespace sluice::io {
namespace {

std::vector<std::string> labels(const std::vector<axis_tick>& ticks) {
  std::vector<std::string> texts;
  for (const axis_tick& tick : ticks)
    if (!tick.label.empty()) texts.push_back(tick.label);
  return texts;
}

TEST(LinearTicks, RoundNumbers) {
  using texts = std::vector<std::string>;
  EXPECT_EQ(labels(linear_ticks(0, 1.42, 10)),
            (texts{"0.0", "0.2", "0.4", "0.6", "0.8", "1.0", "1.2", "1.4"}));
  EXPECT_EQ(labels(linear_ticks(-80, 0, 4)),
            (texts{"\u221280", "\u221260", "\u221240", "\u221220", "0"}));
  EXPECT_EQ(labels(linear_ticks(0, 3600, 5)), (texts{"0", "1000", "2000", "3000"}));
  EXPECT_EQ(labels(linear_ticks(0, 0, 5)), texts{"0"});
  EXPECT_EQ(labels(linear_ticks(0.004, 0.0061, 3)), (texts{"0.004", "0.005", "0.006"}));
}

TEST(LinearTicks, LieInTheRangeAndAreNotTooMany) {
  auto generator = test::make_generator();
  for (int round = 0; round < 2000; ++round) {
    const double low = std::uniform_real_distribution<>(-1000, 1000)(generator);
    const double length = std::pow(10.0, std::uniform_real_distribution<>(-5, 6)(generator));
    const int most = std::uniform_int_distribution<>(1, 20)(generator);
    const auto ticks = linear_ticks(low, low + length, most);
    ASSERT_LE(ticks.size(), static_cast<std::size_t>(most) + 1);
    for (const axis_tick& tick : ticks) {
      EXPECT_GE(tick.value, low - 1e-8 * length);
      EXPECT_LE(tick.value, low + length + 1e-8 * length);
    }
    for (std::size_t i = 1; i < ticks.size(); ++i) EXPECT_NE(ticks[i].label, ticks[i - 1].label);
  }
}

TEST(LinearTicks, ExtremeRangesEnd) {
  EXPECT_LE(linear_ticks(3e38, std::nextafter(3e38, 4e38), 8).size(), 9U);
  EXPECT_LE(linear_ticks(-1e300, 1e300, 8).size(), 9U);
  EXPECT_LE(linear_ticks(0, 1e-300, 8).size(), 9U);
}

TEST(FrequencyTicks, OneTwoFiveOnALogarithmicAxis) {
  const auto ticks = frequency_ticks(
      20, 20000, [](double hertz) { return 100 * std::log10(hertz); }, 20);
  std::vector<std::string> texts = labels(ticks);
  std::sort(texts.begin(), texts.end(),
            [](const auto& a, const auto& b) { return std::stod(a) < std::stod(b); });
  EXPECT_EQ(texts, (std::vector<std::string>{"20", "50", "100", "200", "500", "1000", "2000",
                                             "5000", "10000", "20000"}));
}

TEST(FrequencyTicks, KeepTheirDistance) {
  const auto position = [](double hertz) {
    return hertz / 50;
  };
  const auto ticks = frequency_ticks(0, 24000, position, 26);
  ASSERT_GE(labels(ticks).size(), 3U);
  for (std::size_t i = 0; i < ticks.size(); ++i)
    for (std::size_t j = 0; j < i; ++j) {
      const bool both = !ticks[i].label.empty() && !ticks[j].label.empty();
      EXPECT_GE(std::abs(position(ticks[i].value) - position(ticks[j].value)), both ? 26 : 5);
    }
}

TEST(FrequencyTicks, NarrowRangesFallBack) {
  const auto ticks = frequency_ticks(
      310, 390, [](double hertz) { return hertz * 5; }, 26);
  EXPECT_GE(labels(ticks).size(), 3U);
  EXPECT_EQ(labels(frequency_ticks(
                350, 350, [](double) { return 10.0; }, 26)),
            std::vector<std::string>{"350"});
}

}  // namespace
}  // namespace sluice::io
