// SPDX-License-Identifier: Apache-2.0
#include "tests/operations/dnn/real_numbers.hpp"
#include "tests/operations/elementwise/elements.hpp"
#include "tests/operations/elementwise/resize_reference.hpp"

#include <sluice/operations/resize.hpp>

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <initializer_list>
#include <limits>
#include <optional>
#include <string>
#include <vector>

namespace sluice::test {
namespace {

/// The pixels of weight above 0 of a row or column of the result, in exact arithmetic.
std::vector<weighted_element> pixels_of(std::int64_t index, std::int64_t image_size,
                                        std::int64_t result_size) {
  const auto numerator = std::max<std::int64_t>((2 * index + 1) * image_size - result_size, 0);
  const auto first = numerator / (2 * result_size);
  const auto rest = numerator % (2 * result_size);
  if (rest == 0 || first == image_size - 1) return {{first, 1}};
  const auto weight = static_cast<long double>(rest) / static_cast<long double>(2 * result_size);
  return {{first, 1 - weight}, {first + 1, weight}};
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
    const auto result = run(test_executor(), resize{.x = x.view(), .sizes = {height, width}});
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

  /// Expects the result of `op`, whose x and y are drawn here.
  void expect_right(resize op, element_type type, const extents& shape) {
    const auto x = make(type, shape);
    op.x = x.view();
    std::vector<std::int64_t> along;
    for (const auto d : op.axes) along.push_back(shape[static_cast<std::size_t>(d)]);
    auto y_shape = shape;
    std::vector<std::vector<std::optional<std::vector<weighted_element>>>> weights;
    for (std::size_t k = 0; k < op.axes.size(); ++k) {
      const auto axis = axis_of(op, k, along);
      if (axis.size == 0) return;  // refused
      y_shape[static_cast<std::size_t>(op.axes[k])] = axis.size;
      weights.emplace_back();
      for (std::int64_t i = 0; i < axis.size; ++i) {
        weights.back().push_back(reference_weights(op, axis, i));
      }
    }
    SCOPED_TRACE(std::string(to_string(type)) + ' ' + to_string(shape) + " to " +
                 to_string(y_shape) + " along " + to_string(op.axes) + ", mode " +
                 std::to_string(static_cast<int>(op.mode)) + ", coordinates " +
                 std::to_string(static_cast<int>(op.coordinates)) + ", rounding " +
                 std::to_string(static_cast<int>(op.rounding)) +
                 (op.antialias ? ", antialias" : "") + (op.exclude_outside ? ", exclude" : ""));
    const auto y = make(type, y_shape);
    const bool has_output = coin();
    if (has_output) op.y = y.view();
    const auto result = run(test_executor(), op);
    EXPECT_EQ(result.shape(), y_shape);
    EXPECT_EQ(result.type(), type);
    expect_each(result, [&](const extents& index, const number& computed) {
      long double wanted = 0;
      long double magnitude = 0;
      std::int64_t count = 0;
      bool is_cropped = false;
      const auto add = [&](const auto& self, extents place, std::size_t k, long double weight,
                           long double error) -> void {
        if (k == op.axes.size()) {
          wanted += weight * x[place].real();
          magnitude += std::max(std::abs(weight), error) * std::abs(x[place].real());
          ++count;
          return;
        }
        const auto d = static_cast<std::size_t>(op.axes[k]);
        const auto& elements = weights[k][static_cast<std::size_t>(index[d])];
        is_cropped = is_cropped || !elements;
        if (!elements) return;
        for (const auto& each : *elements) {
          place[d] = each.index;
          self(self, place, k + 1, weight * each.weight, std::max(error, each.error));
        }
      };
      add(add, index, 0, 1, weighted_element{}.error);
      if (is_cropped) wanted = magnitude = op.extrapolation;
      return near(type, computed.real(), wanted, magnitude, count);
    });
    if (has_output) expect_gaps_untouched(y);
  }

  static ::testing::AssertionResult near(element_type type, long double computed,
                                         long double wanted, long double magnitude,
                                         std::int64_t count) {
    long double bound = 0.5L + 1e-5L * magnitude;  // of integers
    if (type == element_type::u8) {
      wanted = std::clamp(wanted, 0.0L, 255.0L);
    } else if (type == element_type::i8) {
      wanted = std::clamp(wanted, -128.0L, 127.0L);
    } else {
      // Positions are computed in f64.
      bound = 4 * test::bound_of(type, wanted, magnitude, count) + 1e-12L * magnitude;
    }
    return std::abs(computed - wanted) <= bound
               ? ::testing::AssertionSuccess()
               : ::testing::AssertionFailure() << computed << " is not " << wanted;
  }

  template <class T>
  T any_of(std::initializer_list<T> values) {
    return values.begin()[between(0, static_cast<std::int64_t>(values.size()) - 1)];
  }
  /// An operation along random axes of `shape`.
  resize any_resize(const extents& shape) {
    const auto rank = static_cast<std::int64_t>(shape.size());
    resize op;
    for (auto count = between(1, std::min<std::int64_t>(rank, 3));
         static_cast<std::int64_t>(op.axes.size()) < count;) {
      const auto d = between(0, rank - 1);
      if (std::find(op.axes.begin(), op.axes.end(), d) == op.axes.end()) op.axes.push_back(d);
    }
    op.mode = any_of({resize_mode::nearest, resize_mode::linear, resize_mode::cubic,
                      resize_mode::linear, resize_mode::cubic, resize_mode::area});
    if (op.mode != resize_mode::area) {
      op.coordinates = static_cast<resize_coordinates>(between(0, 5));
    }
    op.rounding = static_cast<nearest_rounding>(between(0, 3));
    const bool is_sum = op.mode == resize_mode::linear || op.mode == resize_mode::cubic;
    op.antialias = is_sum && coin();
    op.exclude_outside = is_sum && between(0, 2) == 0;
    op.a = coin() ? -0.75 : -0.5;
    const auto what = between(0, 3);
    // A position that is rounded would lie on the other side of half an element.
    const bool has_halves = op.mode == resize_mode::nearest;
    for (std::size_t k = 0; k < op.axes.size(); ++k) {
      const auto extent = shape[static_cast<std::size_t>(op.axes[k])];
      if (what == 0) {
        op.scales[k] = static_cast<double>(between(1, 24)) / 8;
      } else {
        op.sizes.push_back(between(0, 4) == 0 ? extent : between(1, 20));
      }
      op.roi_begin[k] = static_cast<double>(between(-2, 6)) / 8;
      op.roi_end[k] = static_cast<double>(between(1, 10)) / 8;
      if (what == 0 && op.roi_end[k] <= op.roi_begin[k]) op.roi_end[k] = op.roi_begin[k] + 1;
    }
    if (what == 1 && !has_halves) op.policy = static_cast<resize_policy>(between(0, 2));
    if (what == 0 && has_halves && op.coordinates == resize_coordinates::half_pixel_symmetric) {
      op.coordinates = resize_coordinates::asymmetric;
    }
    op.extrapolation = 7;
    return op;
  }
};

constexpr auto types = {element_type::u8,   element_type::i8,  element_type::f16,
                        element_type::bf16, element_type::f32, element_type::f64};

TEST_P(resize_operation, of_all_types_modes_shapes_and_strides) {
  for (const auto type : types) {
    for (int round = 0; round < 40; ++round) {
      extents shape;
      const auto rank = between(1, 4);
      for (std::int64_t d = 0; d < rank; ++d) shape.push_back(between(1, rank < 3 ? 30 : 9));
      expect_right(any_resize(shape), type, shape);
    }
  }
}

// Along axes of which each shrinks, a GPU makes one pass for each.
TEST_P(resize_operation, shrinks_without_aliasing) {
  for (const auto type : types) {
    for (const auto mode : {resize_mode::linear, resize_mode::cubic, resize_mode::area}) {
      resize op{.sizes = {between(1, 5), between(1, 5)}, .axes = {1, 2}, .mode = mode};
      op.antialias = mode != resize_mode::area;
      expect_right(op, type, {2, between(20, 70), between(20, 70), between(1, 5)});
      op.sizes.push_back(between(1, 4));
      op.axes.push_back(0);
      expect_right(op, type, {between(5, 12), between(20, 30), between(20, 30)});
    }
  }
}

TEST_P(resize_operation, of_images_along_either_dimensions) {
  for (const auto type : types) {
    for (int round = 0; round < 8; ++round) {
      const bool last = coin();
      extents shape;
      for (std::int64_t d = between(0, 2); d > 0; --d) shape.push_back(between(1, 3));
      const auto row = static_cast<std::int64_t>(shape.size());
      shape.push_back(between(1, 30));
      shape.push_back(between(1, 30));
      if (last) shape.push_back(between(1, 5));
      expect_right({.sizes = {between(1, 40), between(1, 40)}, .axes = {row, row + 1}}, type,
                   shape);
    }
  }
}

TEST_P(resize_operation, takes_the_sizes_of_a_given_result) {
  const auto x = make(element_type::f32, {5, 6, 2});
  const auto y = make(element_type::f32, {3, 9, 2});
  const auto alone = run(test_executor(), resize{.x = x.view(), .sizes = {3, 9}, .axes = {-3, -2}});
  const auto bytes = contents_of(alone);
  const auto result = run(test_executor(), resize{.x = x.view(), .axes = {-3, -2}, .y = y.view()});
  EXPECT_EQ(result, y.view());
  expect_each(result, [&](const extents& i, const number& computed) {
    const auto place = static_cast<std::size_t>((i[0] * 9 + i[1]) * 8 + i[2] * 4);
    const auto wanted = number_at(element_type::f32, &bytes[place]).real();
    return near(element_type::f32, computed.real(), wanted, 1, 4);
  });
}

// The examples of Resize in the specification of ONNX.
TEST_P(resize_operation, gives_the_numbers_of_the_specification) {
  auto x = make_contiguous(element_type::f32, {4, 4});
  std::vector<float> values(16);
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = static_cast<float>(i + 1);
  x.set(values);
  const auto expect = [&](const resize& op, const std::vector<double>& wanted) {
    const auto result = run(test_executor(), op);
    expect_each(result, [&](const extents& i, const number& computed) {
      const auto value = wanted[static_cast<std::size_t>(i[0] * result.shape()[1] + i[1])];
      return std::abs(computed.real() - value) < 1e-5 * (1 + std::abs(value))
                 ? ::testing::AssertionSuccess()
                 : ::testing::AssertionFailure() << computed.real() << " is not " << value;
    });
  };
  expect({.x = x.view(), .scales = {0.8, 0.8}, .mode = resize_mode::cubic},
         {1.47119141, 2.78125, 4.08251953, 6.71142578, 8.02148438, 9.32275391, 11.91650391,
          13.2265625, 14.52783203});
  expect({.x = x.view(),
          .scales = {0.8, 0.8},
          .mode = resize_mode::cubic,
          .exclude_outside = true,
          .a = -0.5},
         {1.36812675, 2.6695014, 4.0133367, 6.57362535, 7.875, 9.2188353, 11.94896657, 13.25034122,
          14.59417652});
  expect({.x = x.view(), .scales = {0.6, 0.6}, .mode = resize_mode::linear, .antialias = true},
         {2.875, 4.5, 9.375, 11.0});
  expect({.x = x.view(), .scales = {0.6, 0.6}, .mode = resize_mode::cubic, .antialias = true},
         {2.5180721, 4.2858863, 9.589329, 11.357142});
  expect({.x = x.view(),
          .sizes = {3, 3},
          .coordinates = resize_coordinates::crop,
          .roi_begin = {0.4, 0.6},
          .roi_end = {0.6, 0.8}},
         {7.6000004, 7.9, 8.2, 8.8, 9.1, 9.400001, 10.0, 10.3, 10.6});
  expect({.x = x.view(),
          .sizes = {3, 3},
          .coordinates = resize_coordinates::crop,
          .roi_begin = {0.4, 0.6},
          .roi_end = {1.2, 1.7},
          .extrapolation = 10},
         {7.6000004, 10, 10, 12.400001, 10, 10, 10, 10, 10});
}

TEST_P(resize_operation, to_the_same_size_is_a_copy) {
  const auto x = make(element_type::f32, {2, 9, 11});
  expect_elements(run(test_executor(), resize{.x = x.view(), .sizes = {9, 11}}),
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
    expect_each(run(test_executor(), resize{.x = x.view(), .sizes = {1, result_size}}),
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
      run(test_executor(), resize{.x = x.view(), .sizes = {1, 4}}),
      [&](const extents& i) { return number(expected[static_cast<std::size_t>(i[1])]); });
}

TEST_P(resize_operation, rounds_bytes_to_nearest_even) {
  auto x = make_contiguous(element_type::u8, {1, 2});
  x.set(std::vector<std::uint8_t>{254, 255});
  // 254, 254.25, 254.75, 255
  const std::vector<long double> four{254, 254, 255, 255};
  expect_elements(run(test_executor(), resize{.x = x.view(), .sizes = {1, 4}}),
                  [&](const extents& i) { return number(four[static_cast<std::size_t>(i[1])]); });
  // 254.5
  expect_elements(run(test_executor(), resize{.x = x.view(), .sizes = {1, 1}}),
                  [&](const extents&) { return number(254); });
}

TEST_P(resize_operation, of_no_images) {
  const auto x = make(element_type::u8, {0, 4, 5});
  EXPECT_EQ(run(test_executor(), resize{.x = x.view(), .sizes = {2, 2}}).shape(),
            (extents{0, 2, 2}));
}

TEST_P(resize_operation, of_images_of_a_camera) {
  expect_right({.sizes = {224, 224}, .axes = {0, 1}}, element_type::u8, {480, 640, 3});
  expect_right({.sizes = {224, 224}, .axes = {1, 2}}, element_type::f32, {3, 100, 130});
}

INSTANTIATE_TEST_SUITE_P(devices, resize_operation, every_device(), parameter_name);

}  // namespace
}  // namespace sluice::test
