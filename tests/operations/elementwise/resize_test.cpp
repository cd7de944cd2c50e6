// SPDX-License-Identifier: Apache-2.0
#include "tests/operations/elementwise/elements.hpp"

#include <sluice/operations/resize.hpp>

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <vector>

namespace sluice::test {
namespace {

/// A pixel and its weight along one dimension.
struct weighted_pixel {
  std::int64_t index;
  long double weight;
};

/// The pixels of weight above 0 of a row or column of the result, in exact arithmetic.
std::vector<weighted_pixel> pixels_of(std::int64_t index, std::int64_t image_size,
                                      std::int64_t result_size) {
  const auto numerator = std::max<std::int64_t>((2 * index + 1) * image_size - result_size, 0);
  const auto first = numerator / (2 * result_size);
  const auto rest = numerator % (2 * result_size);
  if (rest == 0 || first == image_size - 1) return {{first, 1}};
  const auto weight = static_cast<long double>(rest) / static_cast<long double>(2 * result_size);
  return {{first, 1 - weight}, {first + 1, weight}};
}

/// Position of a row or column of the result among those of the image.
long double position(std::int64_t index, std::int64_t image_size, std::int64_t result_size) {
  const auto centre = (static_cast<long double>(index) + 0.5L) *
                          static_cast<long double>(image_size) /
                          static_cast<long double>(result_size) -
                      0.5L;
  return std::clamp(centre, 0.0L, static_cast<long double>(image_size - 1));
}

class resize_operation : public elementwise_test {
 protected:
  /// Images in which every fifth pixel is NaN or infinite.
  template <class T>
  void expect_only_neighbours(element_type type) {
    const auto shape = extents{between(1, 12), between(1, 12)};
    const auto height = between(1, 24);
    const auto width = between(1, 24);
    SCOPED_TRACE(std::string(to_string(type)) + ' ' + to_string(shape) + " to " +
                 std::to_string(height) + " x " + std::to_string(width));
    std::vector<T> pixels;
    for (std::int64_t i = 0; i < shape[0] * shape[1]; ++i) {
      const float infinite = std::numeric_limits<float>::infinity();
      const float special[] = {std::numeric_limits<float>::quiet_NaN(), infinite, -infinite};
      pixels.push_back(static_cast<T>(between(0, 4) == 0 ? special[between(0, 2)]
                                                         : static_cast<float>(between(-8, 8))));
    }
    auto x = make_contiguous(type, shape);
    x.set(pixels);
    const auto result =
        run(test_executor(), resize{.x = x.view(), .height = height, .width = width});
    expect_each(result, [&](const extents& index, const number& computed) {
      long double wanted = 0;
      for (const auto& row : pixels_of(index[0], shape[0], height)) {
        for (const auto& column : pixels_of(index[1], shape[1], width)) {
          wanted += row.weight * column.weight * x[{row.index, column.index}].real();
        }
      }
      const auto value = computed.real();
      const bool equal = std::isfinite(wanted) ? std::abs(value - wanted) <= 0.05L
                         : std::isnan(wanted)  ? std::isnan(value)
                                               : value == wanted;
      return equal ? ::testing::AssertionSuccess()
                   : ::testing::AssertionFailure() << value << " is not " << wanted;
    });
  }

  void expect_right(element_type type, const extents& shape, std::int64_t height,
                    std::int64_t width, image_layout layout) {
    SCOPED_TRACE(std::string(to_string(type)) + ' ' + to_string(shape) + " to " +
                 std::to_string(height) + " x " + std::to_string(width));
    const auto x = make(type, shape);
    const std::size_t row = shape.size() - (layout == image_layout::channels_last ? 3 : 2);
    auto y_shape = shape;
    y_shape[row] = height;
    y_shape[row + 1] = width;
    const auto y = make(type, y_shape);
    const bool has_output = coin();
    resize op{.x = x.view(), .layout = layout};
    if (has_output) {
      op.y = y.view();
    }
    if (!has_output || coin()) {
      op.height = height;
      op.width = width;
    }
    const auto result = run(test_executor(), op);
    EXPECT_EQ(result.shape(), y_shape);
    EXPECT_EQ(result.type(), type);
    expect_each(result, [&](const extents& index, const number& computed) {
      const auto r = position(index[row], shape[row], height);
      const auto c = position(index[row + 1], shape[row + 1], width);
      long double wanted = 0;
      for (int dr = 0; dr < 2; ++dr) {
        for (int dc = 0; dc < 2; ++dc) {
          auto pixel = index;
          pixel[row] = std::min(static_cast<std::int64_t>(r) + dr, shape[row] - 1);
          pixel[row + 1] = std::min(static_cast<std::int64_t>(c) + dc, shape[row + 1] - 1);
          const auto weight = [](long double p, int d) {
            const auto fraction = p - std::floor(p);
            return d == 0 ? 1 - fraction : fraction;
          };
          wanted += weight(r, dr) * weight(c, dc) * x[pixel].real();
        }
      }
      const long double bound = type == element_type::u8     ? 0.5L + 1e-3L
                                : type == element_type::f16  ? 0x1p-11L + 1e-6L
                                : type == element_type::bf16 ? 0x1p-8L + 1e-6L
                                : type == element_type::f32  ? 1e-6L
                                                             : 1e-11L;
      return std::abs(computed.real() - wanted) <= bound
                 ? ::testing::AssertionSuccess()
                 : ::testing::AssertionFailure() << computed.real() << " is not " << wanted;
    });
    if (has_output) expect_gaps_untouched(y);
  }
};

constexpr auto types = {element_type::u8, element_type::f16, element_type::bf16, element_type::f32,
                        element_type::f64};

TEST_P(resize_operation, of_all_types_shapes_and_strides) {
  for (const auto type : types) {
    for (int round = 0; round < 12; ++round) {
      const bool last = coin();
      extents shape;
      for (std::int64_t d = between(0, last ? 2 : 3); d > 0; --d) shape.push_back(between(1, 3));
      shape.push_back(between(1, 30));
      shape.push_back(between(1, 30));
      if (last) shape.push_back(between(1, 4));
      expect_right(type, shape, between(1, 40), between(1, 40),
                   last ? image_layout::channels_last : image_layout::channels_first);
    }
  }
}

TEST_P(resize_operation, to_the_same_size_is_a_copy) {
  const auto x = make(element_type::f32, {2, 9, 11});
  expect_elements(run(test_executor(), resize{.x = x.view(), .height = 9, .width = 11}),
                  [&](const extents& i) { return x[i]; });
}

TEST_P(resize_operation, leaves_out_pixels_of_weight_0) {
  for (int round = 0; round < 40; ++round) {
    expect_only_neighbours<sluice::f16>(element_type::f16);
    expect_only_neighbours<sluice::bf16>(element_type::bf16);
    expect_only_neighbours<float>(element_type::f32);
    expect_only_neighbours<double>(element_type::f64);
  }
}

// A rounded position beside the centre of a pixel would give its neighbour a weight above 0.
TEST_P(resize_operation, finds_the_centres_of_pixels) {
  constexpr std::int64_t image_size = 500;
  for (std::int64_t result_size = 1; result_size <= 400; ++result_size) {
    SCOPED_TRACE(result_size);
    auto x = make_contiguous(element_type::f64, {1, image_size});
    std::vector<double> pixels(image_size, std::numeric_limits<double>::quiet_NaN());
    for (std::int64_t i = 0; i < result_size; ++i) {
      const auto exact = pixels_of(i, image_size, result_size);
      if (exact.size() == 1) pixels[static_cast<std::size_t>(exact[0].index)] = 1;
    }
    x.set(pixels);
    expect_each(run(test_executor(), resize{.x = x.view(), .height = 1, .width = result_size}),
                [&](const extents& index, const number& computed) {
                  const bool exact = pixels_of(index[1], image_size, result_size).size() == 1;
                  return exact == (computed.real() == 1)
                             ? ::testing::AssertionSuccess()
                             : ::testing::AssertionFailure() << "column " << index[1];
                });
  }
}

// `torch.nn.functional.interpolate` gives these numbers.
TEST_P(resize_operation, doubles_as_pytorch_does) {
  auto x = make_contiguous(element_type::f32, {1, 2});
  x.set(std::vector<float>{0, 4});
  const std::vector<long double> expected{0, 1, 3, 4};
  expect_elements(
      run(test_executor(), resize{.x = x.view(), .height = 1, .width = 4}),
      [&](const extents& i) { return number(expected[static_cast<std::size_t>(i[1])]); });
}

TEST_P(resize_operation, rounds_bytes_to_nearest_even) {
  auto x = make_contiguous(element_type::u8, {1, 2});
  x.set(std::vector<std::uint8_t>{254, 255});
  // 254, 254.25, 254.75, 255
  const std::vector<long double> four{254, 254, 255, 255};
  expect_elements(run(test_executor(), resize{.x = x.view(), .height = 1, .width = 4}),
                  [&](const extents& i) { return number(four[static_cast<std::size_t>(i[1])]); });
  // 254.5
  expect_elements(run(test_executor(), resize{.x = x.view(), .height = 1, .width = 1}),
                  [&](const extents&) { return number(254); });
}

TEST_P(resize_operation, of_no_images) {
  const auto x = make(element_type::u8, {0, 4, 5});
  EXPECT_EQ(run(test_executor(), resize{.x = x.view(), .height = 2, .width = 2}).shape(),
            (extents{0, 2, 2}));
}

TEST_P(resize_operation, of_images_of_a_camera) {
  expect_right(element_type::u8, {480, 640, 3}, 224, 224, image_layout::channels_last);
  expect_right(element_type::f32, {3, 100, 130}, 224, 224, image_layout::channels_first);
}

INSTANTIATE_TEST_SUITE_P(devices, resize_operation, every_device(), parameter_name);

}  // namespace
}  // namespace sluice::test
