// SPDX-License-Identifier: Apache-2.0
#include "tests/support/expect_error.hpp"
#include "tests/support/seed.hpp"

#include <sluice/operations/dnn.hpp>

#include <gtest/gtest.h>

#include <cstdint>
#include <functional>
#include <limits>
#include <random>
#include <string>

namespace {

using namespace sluice;
using sluice::test::throws;

/// How many positions a filter has in one dimension, by trying them.
std::int64_t count_positions(std::int64_t input, std::int64_t filter, std::int64_t padding,
                             std::int64_t stride, std::int64_t dilation) {
  std::int64_t count = 0;
  for (std::int64_t first = -padding; first + dilation * (filter - 1) < input + padding;
       first += stride) {
    ++count;
  }
  return count;
}

TEST(conv2d_output_shape, takes_one_number_for_height_and_width) {
  const conv2d_geometry g{.padding = {1}, .stride = {2}, .dilation = {3}};
  EXPECT_EQ(g, (conv2d_geometry{.padding = {1, 1}, .stride = {2, 2}, .dilation = {3, 3}}));
  EXPECT_EQ((conv2d_geometry::widths{.h = 2}), (conv2d_geometry::widths{2, 2}));
  EXPECT_EQ(conv2d_geometry().stride, (conv2d_geometry::steps{1, 1}));
}

TEST(conv2d_output_shape, counts_the_positions_of_the_filter) {
  auto generator = sluice::test::make_generator();
  const auto draw = [&](std::int64_t first, std::int64_t last) {
    return std::uniform_int_distribution<std::int64_t>(first, last)(generator);
  };
  int refused = 0;
  for (int i = 0; i < 500; ++i) {
    const extents x{draw(0, 3), 4, draw(0, 20), draw(0, 20)};
    const extents w{6, 2, draw(1, 6), draw(1, 6)};
    const conv2d_geometry g{.padding = {.h = draw(0, 4), .w = draw(0, 4)},
                            .stride = {.h = draw(1, 4), .w = draw(1, 4)},
                            .dilation = {.h = draw(1, 3), .w = draw(1, 3)},
                            .groups = 2};
    const auto h = count_positions(x[2], w[2], g.padding.h, g.stride.h, g.dilation.h);
    const auto v = count_positions(x[3], w[3], g.padding.w, g.stride.w, g.dilation.w);
    if (h == 0 || v == 0) {
      ++refused;
      EXPECT_TRUE(throws(errc::invalid_argument,
                         h == 0 ? " high, but the padded x is " : " wide, but the padded x is ",
                         [&] { (void)conv2d_output_shape(x, w, g); }));
    } else {
      EXPECT_EQ(conv2d_output_shape(x, w, g), (extents{x[0], 6, h, v}));
    }
  }
  EXPECT_GT(refused, 0);
}

TEST(conv2d_output_shape, names_what_is_wrong) {
  struct arguments {
    extents x{1, 4, 8, 8};
    extents w{6, 2, 3, 3};
    conv2d_geometry geometry{.groups = 2};
  };
  const auto refuses = [](const std::string& word, const std::function<void(arguments&)>& spoil) {
    arguments a;
    EXPECT_NO_THROW((void)conv2d_output_shape(a.x, a.w, a.geometry));
    spoil(a);
    return throws(errc::invalid_argument, word,
                  [&] { (void)conv2d_output_shape(a.x, a.w, a.geometry); });
  };
  constexpr auto huge = std::numeric_limits<std::int64_t>::max();
  for (std::size_t i = 0; i < 4; ++i) {
    EXPECT_TRUE(refuses("x: has the shape", [i](arguments& a) { a.x[i] = -1; }));
    EXPECT_TRUE(refuses("w: has the shape", [i](arguments& a) { a.w[i] = -2; }));
  }
  EXPECT_TRUE(refuses("x: has the shape", [](arguments& a) { a.x = {4, 8, 8}; }));
  EXPECT_TRUE(refuses("w: has the shape", [](arguments& a) { a.w.push_back(1); }));
  EXPECT_TRUE(
      refuses("w: has filters of 4 channels, but x has 4 channels in 2 groups; channels-last",
              [](arguments& a) { a.w[1] = 4; }));
  EXPECT_TRUE(
      refuses("w: has filters of 3 channels, but x has 8 channels; channels-last images are "
              "passed as x.permute({0, 3, 1, 2})",
              [](arguments& a) {
                a.x = {2, 8, 8, 3};
                a.w = {6, 3, 3, 3};
                a.geometry.groups = 1;
              }));
  EXPECT_TRUE(refuses("w: the filters are 9 high, but the padded x is 8 high",
                      [](arguments& a) { a.w[2] = 9; }));
  EXPECT_TRUE(refuses("w: the dilated filters are 9 wide, but the padded x is 8 wide",
                      [](arguments& a) { a.geometry.dilation.w = 4; }));
  EXPECT_TRUE(refuses("w: has the shape", [](arguments& a) { a.w[2] = 0; }));
  EXPECT_TRUE(refuses("w: has the shape", [](arguments& a) { a.w[3] = 0; }));
  EXPECT_TRUE(
      refuses("geometry.padding.h: is -1", [](arguments& a) { a.geometry.padding.h = -1; }));
  EXPECT_TRUE(
      refuses("geometry.padding.w: is -1", [](arguments& a) { a.geometry.padding.w = -1; }));
  EXPECT_TRUE(refuses("geometry.stride.h: is 0", [](arguments& a) { a.geometry.stride.h = 0; }));
  EXPECT_TRUE(refuses("geometry.stride.w: is -1", [](arguments& a) { a.geometry.stride.w = -1; }));
  EXPECT_TRUE(refuses("geometry.dilation.h", [](arguments& a) { a.geometry.dilation.h = 0; }));
  EXPECT_TRUE(refuses("geometry.dilation.w", [](arguments& a) { a.geometry.dilation.w = 0; }));
  EXPECT_TRUE(refuses("geometry.groups: is 0", [](arguments& a) { a.geometry.groups = 0; }));
  EXPECT_TRUE(refuses("geometry.groups: is 3", [](arguments& a) { a.geometry.groups = 3; }));
  EXPECT_TRUE(refuses("geometry.groups", [](arguments& a) { a.w[0] = 7; }));
  EXPECT_TRUE(refuses("geometry.padding.h", [](arguments& a) { a.geometry.padding.h = huge; }));
  EXPECT_TRUE(refuses("geometry.dilation.w", [](arguments& a) { a.geometry.dilation.w = huge; }));
  EXPECT_TRUE(refuses("y: the size", [](arguments& a) { a.x[0] = huge / 16; }));
  EXPECT_TRUE(refuses(
      "y: the size", [](arguments& a) { a.geometry.padding.h = a.geometry.padding.w = huge / 4; }));
}

}  // namespace
