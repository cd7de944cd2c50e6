// SPDX-License-Identifier: Apache-2.0
#include "tests/operations/dnn/convolution_fixture.hpp"

#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <iterator>
#include <vector>

namespace sluice::test {
namespace {

class conv2d_layouts : public convolution_fixture {};

TEST_P(conv2d_layouts, images_may_stand_apart) {
  for (int i = 0; i < 40; ++i) {
    expect_right(random_conv2d_description(generator()),
                 {.x_gap = draw(0, 9),
                  .y_gap = draw(0, 9),
                  .offset = static_cast<std::size_t>(draw(0, 5)),
                  .gives_y = draw(0, 3) != 0});
  }
}

TEST_P(conv2d_layouts, channels_may_lie_last) {
  for (int i = 0; i < 30; ++i) {
    const bool gapless = i % 3 == 0;
    expect_right(random_conv2d_description(generator()), {.x_order = channels_last(4),
                                                          .w_order = channels_last(4),
                                                          .y_order = channels_last(4),
                                                          .x_gap = gapless ? 0 : draw(0, 9),
                                                          .y_gap = gapless ? 0 : draw(0, 9),
                                                          .gives_y = draw(0, 3) != 0});
  }
}

TEST_P(conv2d_layouts, each_operand_may_have_an_order_of_its_own) {
  for (int i = 1; i < 8; ++i) {
    const auto order = [&](int bit) {
      return (i & bit) != 0 ? channels_last(4) : extents{0, 1, 2, 3};
    };
    for (int round = 0; round < 5; ++round) {
      expect_right(random_conv2d_description(generator()),
                   {.x_order = order(1), .w_order = order(2), .y_order = order(4)});
    }
  }
}

TEST_P(conv2d_layouts, any_strides) {
  for (int i = 0; i < 40; ++i) {
    expect_right(random_conv2d_description(generator()),
                 {.gives_y = i % 4 != 0, .is_random = true});
  }
}

TEST_P(conv2d_layouts, a_new_result_lies_as_x_does) {
  const auto w_first = numbers({5, 3, 2, 2});
  const auto w_last = numbers({5, 2, 2, 3}).permute({0, 3, 1, 2});
  const auto images = numbers({2, 6, 7, 3});
  for (const auto& w : {w_first, w_last}) {
    const auto first = run(test_executor(), conv2d{.x = numbers({2, 3, 6, 7}), .w = w});
    EXPECT_TRUE(first.is_contiguous());
    const auto last = run(test_executor(), conv2d{.x = images.permute({0, 3, 1, 2}), .w = w});
    EXPECT_EQ(last.shape(), first.shape());
    EXPECT_TRUE(last.permute({0, 2, 3, 1}).is_contiguous());
  }
}

TEST_P(conv2d_layouts, operands_may_repeat_elements) {
  const auto x = numbers({1, 3, 6, 7});
  const auto w = numbers({1, 3, 2, 2});
  const auto bias = numbers({1});
  const auto one = row_major(run(test_executor(), conv2d{.x = x, .w = w, .bias = bias}));
  const auto repeated = row_major(run(test_executor(), conv2d{.x = x.broadcast_to({2, 3, 6, 7}),
                                                              .w = w.broadcast_to({5, 3, 2, 2}),
                                                              .bias = bias.broadcast_to({5})}));
  ASSERT_EQ(repeated.size(), 10 * one.size());
  for (auto from = repeated.begin(); from != repeated.end(); from += std::ssize(one)) {
    EXPECT_LE(relative_error(std::vector(from, from + std::ssize(one)), one), error_bound<float>());
  }
}

/// A slice of a batch and of its channels: views without a copy.
TEST_P(conv2d_layouts, slices_are_convolved_without_a_copy) {
  const auto images = numbers({6, 5, 9, 8});
  const auto w = numbers({4, 2, 3, 3});
  const auto all = run(test_executor(), conv2d{.x = images.slice(1, 2, 4), .w = w});
  const auto some =
      run(test_executor(), conv2d{.x = images.slice(1, 2, 4).slice(0, 1, 6, 2), .w = w});
  const auto expected = row_major(all);
  const auto computed = row_major(some);
  const auto image = expected.size() / 6;
  for (std::size_t i = 0; i < 3; ++i) {
    const auto from = expected.begin() + static_cast<std::ptrdiff_t>((2 * i + 1) * image);
    EXPECT_LE(
        relative_error(std::vector(computed.begin() + static_cast<std::ptrdiff_t>(i * image),
                                   computed.begin() + static_cast<std::ptrdiff_t>((i + 1) * image)),
                       std::vector(from, from + static_cast<std::ptrdiff_t>(image))),
        error_bound<float>());
  }
}

INSTANTIATE_TEST_SUITE_P(devices, conv2d_layouts, every_device(), parameter_name);

}  // namespace
}  // namespace sluice::test
