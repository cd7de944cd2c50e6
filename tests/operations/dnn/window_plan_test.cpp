// SPDX-License-Identifier: Apache-2.0
#include "tests/operations/dnn/convolution_fixture.hpp"

#include <gtest/gtest.h>

#include <cstdint>

namespace sluice::test {
namespace {

/// Convolutions whose groups have few filters or one channel of X. A host device computes them with
/// vectors of neighbouring windows; see `window_plan`.
class few_filters : public convolution_fixture {};

TEST_P(few_filters, random_geometries) {
  for (int i = 0; i < 60; ++i) {
    const auto groups = draw(1, 3);
    const auto channels = draw(1, 5);
    const auto filters = channels == 1 ? draw(1, 19) : draw(1, 8);
    const conv2d_geometry::steps dilation{.h = draw(1, 3), .w = draw(1, 3)};
    const auto rows = draw(1, 5);
    const auto columns = draw(1, 7);
    const auto stride = draw(1, 4);
    expect_right({.x = {draw(1, 3), groups * channels, draw(13, 40), draw(19, 120) * stride},
                  .w = {groups * filters, channels, rows, columns},
                  .geometry = {.padding = {.h = draw(0, rows * dilation.h), .w = draw(0, 30)},
                               .stride = {.h = draw(1, 4), .w = stride},
                               .dilation = dilation,
                               .groups = groups},
                  .has_bias = draw(0, 1) == 1,
                  .has_residual = draw(0, 1) == 1,
                  .activation = draw(0, 1) == 1 ? activation::relu : activation::none},
                 {.x_gap = draw(0, 5), .y_gap = draw(0, 5), .gives_y = i % 2 == 0});
  }
}

TEST_P(few_filters, long_filters_in_bands) {
  expect_right({.x = {1, 8, 80, 264},
                .w = {8, 8, 3, 39},
                .geometry = {.padding = {.h = 1, .w = 19}},
                .has_bias = true,
                .activation = activation::sigmoid});
}

/// Windows that lie in the padding alone, and strides that skip columns of X.
TEST_P(few_filters, windows_beyond_the_image) {
  expect_right({.x = {1, 2, 2, 3},
                .w = {3, 2, 2, 2},
                .geometry = {.padding = {.h = 9, .w = 40}, .stride = {.h = 2, .w = 3}},
                .has_bias = true});
  expect_right({.x = {2, 1, 3, 200}, .w = {5, 1, 1, 2}, .geometry = {.stride = {.h = 2, .w = 7}}});
}

/// One row of the result has more products than a thread shall compute.
TEST_P(few_filters, long_signals) {
  expect_right({.x = {1, 1, 1, 160'000}, .w = {8, 1, 1, 400}, .geometry = {.stride = {.w = 15}}});
}

TEST_P(few_filters, filters_that_lie_channels_last) {
  expect_right({.x = {2, 6, 9, 33}, .w = {7, 6, 3, 3}, .has_bias = true},
               {.w_order = channels_last(4)});
}

INSTANTIATE_TEST_SUITE_P(devices, few_filters, every_device(), parameter_name);

}  // namespace
}  // namespace sluice::test
