// SPDX-License-Identifier: Apache-2.0
#include "tests/support/expect_error.hpp"
#include "tests/support/seed.hpp"

#include <sluice/actors/dnn_types.hpp>

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

TEST(conv2d_output_shape, counts_the_positions_of_the_filter) {
  auto generator = sluice::test::make_generator();
  const auto draw = [&](std::int64_t from, std::int64_t to) {
    return std::uniform_int_distribution<std::int64_t>(from, to)(generator);
  };
  int refused = 0;
  for (int i = 0; i < 500; ++i) {
    const nchw_shape input{.n = draw(0, 3), .c = 4, .h = draw(0, 20), .w = draw(0, 20)};
    const filter_shape filter{.k = 6, .c = 2, .r = draw(1, 6), .s = draw(1, 6)};
    const conv2d_geometry g{.padding = {.h = draw(0, 4), .w = draw(0, 4)},
                            .stride = {.h = draw(1, 4), .w = draw(1, 4)},
                            .dilation = {.h = draw(1, 3), .w = draw(1, 3)},
                            .groups = 2};
    const std::int64_t h =
        count_positions(input.h, filter.r, g.padding.h, g.stride.h, g.dilation.h);
    const std::int64_t w =
        count_positions(input.w, filter.s, g.padding.w, g.stride.w, g.dilation.w);
    if (h == 0 || w == 0) {
      ++refused;
      EXPECT_TRUE(throws(errc::invalid_argument, h == 0 ? "height" : "width",
                         [&] { (void)conv2d_output_shape(input, filter, g); }));
    } else {
      EXPECT_EQ(conv2d_output_shape(input, filter, g),
                (nchw_shape{.n = input.n, .c = 6, .h = h, .w = w}));
    }
  }
  EXPECT_GT(refused, 0);
}

TEST(conv2d_output_shape, names_what_is_wrong) {
  struct arguments {
    nchw_shape input{.n = 1, .c = 4, .h = 8, .w = 8};
    filter_shape filter{.k = 6, .c = 2, .r = 3, .s = 3};
    conv2d_geometry geometry{.groups = 2};
  };
  const auto refuses = [](const std::string& word, const std::function<void(arguments&)>& spoil) {
    arguments a;
    EXPECT_NO_THROW((void)conv2d_output_shape(a.input, a.filter, a.geometry));
    spoil(a);
    return throws(errc::invalid_argument, word,
                  [&] { (void)conv2d_output_shape(a.input, a.filter, a.geometry); });
  };
  constexpr std::int64_t huge = std::numeric_limits<std::int64_t>::max();
  EXPECT_TRUE(refuses("input.n", [](arguments& a) { a.input.n = -1; }));
  EXPECT_TRUE(refuses("input.c", [](arguments& a) { a.input.c = -1; }));
  EXPECT_TRUE(refuses("input.h", [](arguments& a) { a.input.h = -1; }));
  EXPECT_TRUE(refuses("input.w", [](arguments& a) { a.input.w = -1; }));
  EXPECT_TRUE(refuses("filter.k", [](arguments& a) { a.filter.k = -2; }));
  EXPECT_TRUE(refuses("filter.c", [](arguments& a) { a.filter.c = -2; }));
  EXPECT_TRUE(refuses("filter.c", [](arguments& a) { a.filter.c = 4; }));
  EXPECT_TRUE(refuses("filter.r", [](arguments& a) { a.filter.r = 0; }));
  EXPECT_TRUE(refuses("filter.s", [](arguments& a) { a.filter.s = 0; }));
  EXPECT_TRUE(refuses("padding.h", [](arguments& a) { a.geometry.padding.h = -1; }));
  EXPECT_TRUE(refuses("padding.w", [](arguments& a) { a.geometry.padding.w = -1; }));
  EXPECT_TRUE(refuses("stride.h", [](arguments& a) { a.geometry.stride.h = 0; }));
  EXPECT_TRUE(refuses("stride.w", [](arguments& a) { a.geometry.stride.w = -1; }));
  EXPECT_TRUE(refuses("dilation.h", [](arguments& a) { a.geometry.dilation.h = 0; }));
  EXPECT_TRUE(refuses("dilation.w", [](arguments& a) { a.geometry.dilation.w = 0; }));
  EXPECT_TRUE(refuses("groups", [](arguments& a) { a.geometry.groups = 0; }));
  EXPECT_TRUE(refuses("groups", [](arguments& a) { a.geometry.groups = 3; }));
  EXPECT_TRUE(refuses("groups", [](arguments& a) { a.filter.k = 7; }));
  EXPECT_TRUE(refuses("padding overflows", [](arguments& a) { a.geometry.padding.h = huge; }));
  EXPECT_TRUE(refuses("dilation overflows", [](arguments& a) { a.geometry.dilation.w = huge; }));
  EXPECT_TRUE(refuses("size of input overflows", [](arguments& a) { a.input.n = huge / 16; }));
  EXPECT_TRUE(refuses("size of output overflows", [](arguments& a) {
    a.geometry.padding.h = a.geometry.padding.w = huge / 4;
  }));
}

}  // namespace
