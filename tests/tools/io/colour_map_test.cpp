// SPDX-License-Identifier: Apache-2.0
#include "tools/io/colour_map.hpp"

#include <gtest/gtest.h>

#include <limits>
#include <tuple>
#include <vector>

namespace sluice::io {
namespace {

TEST(Magma, AgreesWithThePublishedColours) {
  // Some of the 256 published colours that are not among the interpolated ones.
  const std::vector<std::tuple<int, colour>> published{
      {0, {0, 0, 4}}, {64, {81, 18, 124}}, {128, {183, 55, 121}}, {255, {252, 253, 191}}};
  for (const auto& [index, expected] : published) {
    const colour found = magma(index / 255.0);
    EXPECT_NEAR(found.red, expected.red, 2) << index;
    EXPECT_NEAR(found.green, expected.green, 2) << index;
    EXPECT_NEAR(found.blue, expected.blue, 2) << index;
  }
  EXPECT_EQ(magma(-1), magma(0));
  EXPECT_EQ(magma(2), magma(1));
  EXPECT_EQ(magma(std::numeric_limits<double>::quiet_NaN()), magma(0));
  // Perceptually ordered: lightness only grows.
  double previous = -1;
  for (int i = 0; i <= 1000; ++i) {
    const colour c = magma(i / 1000.0);
    const double lightness = 0.2126 * c.red + 0.7152 * c.green + 0.0722 * c.blue;
    EXPECT_GE(lightness, previous - 0.8) << i;
    previous = lightness;
  }
}

}  // namespace
}  // namespace sluice::io
