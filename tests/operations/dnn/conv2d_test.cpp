// SPDX-License-Identifier: Apache-2.0
#include "tests/operations/dnn/convolution_fixture.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <tuple>
#include <vector>

namespace sluice::test {
namespace {

class conv2d_operation : public convolution_fixture {};

TEST_P(conv2d_operation, random_geometries) {
  for (int i = 0; i < 80; ++i) {
    expect_right(random_conv2d_description(generator()), {.gives_y = i % 2 == 0});
  }
}

TEST_P(conv2d_operation, depthwise) {
  for (const std::int64_t multiplier : {1, 3}) {
    for (const std::int64_t channels : {5, 32}) {
      expect_right({.x = {2, channels, 15, 17},
                    .w = {channels * multiplier, 1, 3, 5},
                    .geometry = {.padding = {.h = 1, .w = 2},
                                 .stride = {.h = 2, .w = 1},
                                 .groups = channels},
                    .has_bias = true,
                    .activation = activation::relu});
    }
  }
}

TEST_P(conv2d_operation, pointwise) {
  expect_right({.x = {2, 67, 9, 11}, .w = {33, 67, 1, 1}, .has_bias = true});
  expect_right({.x = {1, 1, 1, 1}, .w = {1, 1, 1, 1}});
}

// A host device multiplies the filters with images of enough pixels whose channels lie first, in
// parts of the images; see `pointwise_plan`.
TEST_P(conv2d_operation, pointwise_of_many_pixels) {
  for (const bool has_bias : {false, true}) {
    const auto channels = draw(1, 40);
    expect_right({.x = {3, channels, 13, draw(10, 60)},
                  .w = {draw(1, 40), channels, 1, 1},
                  .has_bias = has_bias,
                  .has_residual = !has_bias},
                 {.x_gap = draw(0, 5), .y_gap = draw(0, 5)});
    expect_right({.x = {1, 160, 37, 41}, .w = {150, 160, 1, 1}, .has_bias = has_bias});
  }
}

/// A NaN stays in the pixel that has it, in all channels.
TEST_P(conv2d_operation, pointwise_confines_nan) {
  constexpr std::int64_t size = 16;
  std::vector<float> values(3 * size * size, 1);
  values[size * size + 70] = std::numeric_limits<float>::quiet_NaN();
  const auto x = tensor(upload(runtime(), stream(), values)).reshape({1, 3, size, size});
  const auto result = row_major(run(test_executor(), conv2d{.x = x, .w = numbers({5, 3, 1, 1})}));
  for (std::size_t i = 0; i < result.size(); ++i) {
    EXPECT_EQ(std::isnan(result[i]), i % (size * size) == 70) << i;
  }
}

TEST_P(conv2d_operation, one_dimension) {
  expect_right({.x = {3, 7, 1, 301},
                .w = {11, 7, 1, 25},
                .geometry = {.padding = {.w = 12}, .stride = {.w = 3}, .dilation = {.w = 2}},
                .has_bias = true});
}

/// oneDNN takes long to plan for wide rows: the host computes them another way.
TEST_P(conv2d_operation, wide_rows) {
  expect_right({.x = {1, 2, 1, 300'000},
                .w = {3, 2, 1, 5},
                .geometry = {.padding = {.w = 2}, .stride = {.w = 2}},
                .has_bias = true});
  expect_right({.x = {2, 2, 3, 140'000},
                .w = {2, 1, 2, 3},
                .geometry = {.padding = {.h = 1, .w = 3}, .dilation = {.w = 2}, .groups = 2},
                .has_bias = true,
                .activation = activation::relu},
               {.x_gap = 3, .y_gap = 5});
  expect_right(
      {.x = {1, 3, 2, 140'000}, .w = {2, 3, 2, 3}, .geometry = {.stride = {.w = 3}}},
      {.x_order = channels_last(4), .w_order = channels_last(4), .y_order = channels_last(4)});
}

TEST_P(conv2d_operation, large_filters) {
  expect_right({.x = {1, 3, 37, 41},
                .w = {8, 3, 11, 11},
                .geometry = {.padding = {.h = 2, .w = 2}, .stride = {.h = 4, .w = 4}}});
  expect_right(
      {.x = {1, 2, 33, 35}, .w = {3, 2, 31, 33}, .geometry = {.padding = {.h = 15, .w = 16}}});
}

/// More than 1024 products a sum, and shapes that the libraries have their fastest kernels for.
TEST_P(conv2d_operation, many_channels) {
  for (const std::int64_t size : {3, 5}) {
    expect_right({.x = {2, 128, 14, 14},
                  .w = {64, 128, size, size},
                  .geometry = {.padding = {.h = size / 2, .w = size / 2}},
                  .has_bias = true,
                  .activation = activation::relu});
  }
}

// The host cuts these by images, by bands of rows, or by both.
TEST_P(conv2d_operation, large_convolutions) {
  for (const std::int64_t images : {1, 2, 5, 40}) {
    for (const bool is_channels_last : {false, true}) {
      const std::int64_t groups = draw(1, 2);
      const auto side = images == 40 ? draw(40, 50) : draw(150, 200) / (images == 5 ? 2 : 1);
      const std::int64_t channels = images == 1 ? 12 : 8;
      const auto order = is_channels_last ? channels_last(4) : extents();
      expect_right({.x = {images, channels * groups, side, side + draw(0, 20)},
                    .w = {16, channels, draw(3, 5), 3},
                    .geometry = {.padding = {.h = draw(0, 4), .w = draw(0, 2)},
                                 .stride = {.h = draw(1, 2), .w = 1},
                                 .dilation = {.h = draw(1, 3), .w = draw(1, 2)},
                                 .groups = groups},
                    .has_bias = draw(0, 1) == 1,
                    .activation = draw(0, 1) == 1 ? activation::relu : activation::none},
                   {.x_order = order,
                    .w_order = order,
                    .y_order = order,
                    .x_gap = draw(0, 7),
                    .y_gap = draw(0, 7)});
    }
  }
}

TEST_P(conv2d_operation, padding_wider_than_the_filter) {
  expect_right({.x = {2, 3, 4, 2},
                .w = {5, 3, 2, 3},
                .geometry = {.padding = {.h = 5, .w = 7}, .stride = {.h = 1, .w = 2}},
                .has_bias = true});
}

/// Geometry with numbers around 2^31 and operands of a few elements.
TEST_P(conv2d_operation, far_steps_over_a_small_image) {
  constexpr std::int64_t far = std::int64_t{1} << 30U;
  expect_right({.x = {1, 2, 10, 10},
                .w = {3, 2, 1, 1},
                .geometry = {.padding = {.w = 2},
                             .stride = {.h = 8 * far, .w = std::int64_t{1} << 62U},
                             .dilation = {.h = 8 * far, .w = std::int64_t{1} << 62U}}});
  expect_right({.x = {1, 2, 10, 10},
                .w = {3, 2, 2, 2},
                .geometry = {.padding = {.h = far, .w = far},
                             .stride = {.h = far, .w = far},
                             .dilation = {.h = far, .w = far}},
                .has_bias = true});
}

TEST_P(conv2d_operation, tf32_when_asked_for) {
  expect_right({.x = {2, 64, 14, 14},
                .w = {64, 64, 3, 3},
                .geometry = {.padding = {.h = 1, .w = 1}},
                .math = math_mode::tf32});
}

TEST_P(conv2d_operation, an_empty_batch_is_empty) {
  const auto images = numbers({1, 3, 8, 8});
  const auto w = numbers({4, 3, 3, 3});
  const auto bias = numbers({4});
  const auto empty = run(test_executor(), conv2d{.x = images.slice(0, 0, 0), .w = w, .bias = bias});
  EXPECT_EQ(empty.shape(), (extents{0, 4, 6, 6}));
  const auto no_filters = run(test_executor(), conv2d{.x = images, .w = w.slice(0, 0, 0)});
  EXPECT_EQ(no_filters.shape(), (extents{1, 0, 6, 6}));
}

TEST_P(conv2d_operation, nothing_to_sum_is_the_bias) {
  for (const auto& [x, w, padding] : {std::tuple{extents{2, 0, 4, 5}, extents{3, 0, 2, 2}, 0},
                                      std::tuple{extents{2, 3, 0, 5}, extents{3, 3, 2, 2}, 2}}) {
    for (const bool has_bias : {false, true}) {
      for (const auto a : {activation::none, activation::relu}) {
        const conv2d_description d{.x = x,
                                   .w = w,
                                   .geometry = {.padding = {.h = padding, .w = 0}},
                                   .has_bias = has_bias,
                                   .activation = a};
        expect_right(d);
        expect_right(d, {.y_order = channels_last(4), .y_gap = 4});
        expect_right(d, {.gives_y = false});
      }
    }
  }
}

TEST_P(conv2d_operation, relu_keeps_nan) {
  auto values = random_values<float>(generator(), 16 * 12 * 12);
  values[12 * 5 + 5] = std::numeric_limits<float>::quiet_NaN();
  const auto y =
      run(test_executor(),
          conv2d{.x = tensor(upload(runtime(), stream(), values)).reshape({1, 16, 12, 12}),
                 .w = numbers({16, 16, 3, 3}),
                 .bias = numbers({16}),
                 .activation = activation::relu});
  const auto result = row_major(y);
  for (std::size_t k = 0; k < 16; ++k) {
    for (std::size_t p = 3; p <= 5; ++p) {
      for (std::size_t q = 3; q <= 5; ++q) EXPECT_TRUE(std::isnan(result[(k * 10 + p) * 10 + q]));
    }
  }
}

/// A kernel of a convolution may add a bias and apply ReLU.
TEST_P(conv2d_operation, functions_of_networks) {
  for (const auto function : all_activations) {
    for (const std::int64_t groups : {1, 4, 32}) {
      const auto order = generator()() % 2 == 0 ? channels_last(4) : extents();
      expect_right({.x = {2, 32, 9, 10},
                    .w = {32, 32 / groups, 3, 3},
                    .geometry = {.padding = {.h = 1, .w = 1}, .groups = groups},
                    .has_bias = generator()() % 2 == 0,
                    .activation = function,
                    .math = generator()() % 2 == 0 ? math_mode::tf32 : math_mode::f32},
                   {.x_order = order,
                    .w_order = order,
                    .y_order = order,
                    .offset = generator()() % 4 == 0 ? std::size_t{1} : std::size_t{0}});
    }
  }
}

INSTANTIATE_TEST_SUITE_P(devices, conv2d_operation, every_device(), parameter_name);

}  // namespace
}  // namespace sluice::test
