// SPDX-License-Identifier: Apache-2.0
#include "tests/operations/dnn/real_numbers.hpp"
#include "tests/operations/elementwise/elements.hpp"
#include "tests/support/expect_error.hpp"

#include <sluice/operations/grid_sample.hpp>
#include <sluice/operations/program.hpp>

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <string>
#include <utility>
#include <vector>

namespace sluice::test {
namespace {

/// An element along an axis with its weight.
struct sampled_element {
  std::int64_t index;
  long double weight;
};

/// A position that is reflected at both borders until it lies between them.
long double reflected(long double position, long double low, long double high) {
  if (low == high) return 0;
  for (int turns = 0; turns < 10000 && (position < low || position > high); ++turns) {
    position = position < low ? 2 * low - position : 2 * high - position;
  }
  return position;
}
long double padded(const grid_sample& op, long double position, std::int64_t extent) {
  const auto last = static_cast<long double>(extent - 1);
  if (op.padding == grid_padding::zeros) return position;
  if (op.padding == grid_padding::reflection) {
    position =
        op.align_corners ? reflected(position, 0, last) : reflected(position, -0.5L, last + 0.5L);
  }
  return std::clamp(position, 0.0L, last);
}

/// The elements that make up a sample along an axis, without those that are zeros.
std::vector<sampled_element> elements_along(const grid_sample& op, long double coordinate,
                                            std::int64_t extent) {
  const auto n = static_cast<long double>(extent);
  const auto position =
      op.align_corners ? (coordinate + 1) / 2 * (n - 1) : ((coordinate + 1) * n - 1) / 2;
  std::vector<sampled_element> all;
  const auto add = [&](long double place, long double weight) {
    if (weight == 0 || place < 0 || place > n - 1) return;
    all.push_back({static_cast<std::int64_t>(place), weight});
  };
  if (op.mode == grid_mode::nearest) {
    add(std::rint(padded(op, position, extent)), 1);
  } else if (op.mode == grid_mode::linear) {
    const auto place = padded(op, position, extent);
    add(std::floor(place), 1 - (place - std::floor(place)));
    add(std::floor(place) + 1, place - std::floor(place));
  } else {
    for (auto k = std::floor(position) - 1; k <= std::floor(position) + 2; ++k) {
      const auto x = std::abs(position - k);
      const long double a = -0.75L;
      const auto weight = x <= 1  ? (a + 2) * x * x * x - (a + 3) * x * x + 1
                          : x < 2 ? a * x * x * x - 5 * a * x * x + 8 * a * x - 4 * a
                                  : 0;
      add(padded(op, k, extent), weight);
    }
  }
  return all;
}

class grid_samples : public elementwise_test {
 protected:
  /// A grid of positions inside and outside, none of which lies half-way between two elements.
  elements make_grid(element_type type, const extents& shape) {
    auto grid = make(type, shape);
    std::vector<double> values(997);
    for (auto& value : values) value = static_cast<double>(between(-180, 180)) / 128 + 0.003;
    if (type == element_type::f64) grid.set(values);
    if (type == element_type::f32) grid.set(std::vector<float>(values.begin(), values.end()));
    if (type == element_type::f16 || type == element_type::bf16) {
      std::vector<std::uint16_t> bits;
      for (const auto value : values) {
        const auto number = static_cast<float>(value);
        bits.push_back(type == element_type::f16 ? sluice::f16(number).bits
                                                 : sluice::bf16(number).bits);
      }
      grid.set(bits);
    }
    return grid;
  }

  void expect_samples(grid_sample op, element_type type, element_type grid_type,
                      const extents& shape, const extents& places) {
    SCOPED_TRACE(std::string(to_string(type)) + ' ' + to_string(shape) + " at " +
                 to_string(places) + " of " + std::string(to_string(grid_type)) + ", mode " +
                 std::to_string(static_cast<int>(op.mode)) + ", padding " +
                 std::to_string(static_cast<int>(op.padding)) +
                 (op.align_corners ? ", align_corners" : ""));
    const auto x = make(type, shape);
    const auto axes = shape.size() - 2;
    extents grid_shape{shape[0]};
    extents y_shape{shape[0], shape[1]};
    for (const auto extent : places) {
      grid_shape.push_back(extent);
      y_shape.push_back(extent);
    }
    grid_shape.push_back(static_cast<std::int64_t>(axes));
    const auto grid = make_grid(grid_type, grid_shape);
    op.x = x.view();
    op.grid = grid.view();
    const auto y = make(type, y_shape);
    const bool has_output = coin();
    if (has_output) op.y = y.view();
    const auto result = run(test_executor(), op);
    EXPECT_EQ(result.shape(), y_shape);
    expect_each(result, [&](const extents& index, const number& computed) {
      extents position{index[0]};
      for (std::size_t d = 2; d < index.size(); ++d) position.push_back(index[d]);
      position.push_back(0);
      std::vector<std::vector<sampled_element>> along;
      for (std::size_t i = 0; i < axes; ++i) {
        position[axes + 1] = static_cast<std::int64_t>(axes - 1 - i);
        along.push_back(elements_along(op, grid[position].real(), shape[i + 2]));
      }
      long double wanted = 0;
      long double magnitude = 0;
      const auto add = [&](const auto& self, extents place, std::size_t i,
                           long double weight) -> void {
        if (i == axes) {
          wanted += weight * x[place].real();
          magnitude += std::abs(x[place].real());
          return;
        }
        for (const auto& each : along[i]) {
          place[i + 2] = each.index;
          self(self, place, i + 1, weight * each.weight);
        }
      };
      add(add, index, 0, 1);
      // Positions are computed in f32, too.
      const auto bound = 8 * test::bound_of(type, wanted, magnitude * 30, 64);
      return std::abs(computed.real() - wanted) <= bound
                 ? ::testing::AssertionSuccess()
                 : ::testing::AssertionFailure() << computed.real() << " is not " << wanted;
    });
    if (has_output) expect_gaps_untouched(y);
  }
};

constexpr auto modes = {grid_mode::nearest, grid_mode::linear, grid_mode::cubic};
constexpr auto paddings = {grid_padding::zeros, grid_padding::border, grid_padding::reflection};

TEST_P(grid_samples, of_all_types_modes_and_paddings) {
  for (const auto type : real_types) {
    for (const auto mode : modes) {
      for (const auto padding : paddings) {
        for (std::int64_t axes = 1; axes <= 3; ++axes) {
          extents shape{between(1, 3), between(1, 4)};
          extents places;
          for (std::int64_t i = 0; i < axes; ++i) {
            shape.push_back(between(1, 9));
            places.push_back(between(1, axes == 3 ? 4 : 9));
          }
          const auto grid_type = real_types[static_cast<std::size_t>(between(0, 3))];
          expect_samples({.mode = mode, .padding = padding, .align_corners = coin()}, type,
                         grid_type, shape, places);
        }
      }
    }
  }
}

TEST_P(grid_samples, of_larger_images) {
  expect_samples({}, element_type::f32, element_type::f32, {2, 3, 61, 47}, {53, 67});
  expect_samples({.padding = grid_padding::reflection}, element_type::f16, element_type::f32,
                 {1, 33, 16, 17}, {19, 18});
}

// NaN stands for -1, and what lies infinitely far outside is zero or at the border.
TEST_P(grid_samples, of_positions_that_are_no_numbers) {
  constexpr float infinite = std::numeric_limits<float>::infinity();
  auto x = make_contiguous(element_type::f32, {1, 1, 3});
  x.set(std::vector<float>{1, 2, 3});
  auto grid = make_contiguous(element_type::f32, {1, 5, 1});
  grid.set(std::vector<float>{std::numeric_limits<float>::quiet_NaN(), infinite, -infinite, 1e30F,
                              -1e30F});
  for (const auto mode : modes) {
    for (const auto padding : {grid_padding::zeros, grid_padding::border}) {
      const bool is_zero = padding == grid_padding::zeros;
      const std::vector<long double> wanted{1, is_zero ? 0.0L : 3.0L, is_zero ? 0.0L : 1.0L,
                                            is_zero ? 0.0L : 3.0L, is_zero ? 0.0L : 1.0L};
      expect_elements(
          run(test_executor(), grid_sample{.x = x.view(),
                                           .grid = grid.view(),
                                           .mode = mode,
                                           .padding = padding,
                                           .align_corners = true}),
          [&](const extents& i) { return number(wanted[static_cast<std::size_t>(i[2])]); });
    }
  }
}

TEST_P(grid_samples, leave_out_elements_of_weight_0) {
  auto x = make_contiguous(element_type::f32, {1, 1, 3, 3});
  std::vector<float> values(9, std::numeric_limits<float>::quiet_NaN());
  values[4] = 5;
  x.set(values);
  auto grid = make_contiguous(element_type::f32, {1, 1, 1, 2});
  grid.set(std::vector<float>{0});
  for (const auto mode : modes) {
    expect_elements(
        run(test_executor(), grid_sample{.x = x.view(), .grid = grid.view(), .mode = mode}),
        [](const extents&) { return number(5); });
  }
}

// The example of the specification of GridSample in ONNX.
TEST_P(grid_samples, give_the_numbers_of_the_specification) {
  auto x = make_contiguous(element_type::f32, {1, 1, 3, 2});
  x.set(std::vector<float>{0, 1, 2, 3, 4, 5});
  auto grid = make_contiguous(element_type::f32, {1, 2, 4, 2});
  grid.set(std::vector<float>{-10, -10, -5, -5, -0.2F, -0.2F, 10, 10, 10, 10, -0.2F, -0.2F, 5, 5,
                              10, 10});
  const auto expect = [&](grid_padding padding, const std::vector<double>& wanted) {
    expect_each(
        run(test_executor(), grid_sample{.x = x.view(), .grid = grid.view(), .padding = padding}),
        [&](const extents& i, const number& computed) {
          const auto value = wanted[static_cast<std::size_t>(i[2] * 4 + i[3])];
          return std::abs(computed.real() - value) < 1e-5
                     ? ::testing::AssertionSuccess()
                     : ::testing::AssertionFailure() << computed.real() << ", " << value;
        });
  };
  expect(grid_padding::zeros, {0, 0, 1.7, 0, 0, 1.7, 0, 0});
  expect(grid_padding::border, {0, 0, 1.7, 5, 5, 1.7, 5, 5});
  expect(grid_padding::reflection, {2.5, 0, 1.7, 2.5, 2.5, 1.7, 5, 2.5});
}

TEST_P(grid_samples, are_steps_of_programs) {
  const auto x = make_contiguous(element_type::f32, {1, 2, 5, 6});
  const auto grid = make_grid(element_type::f32, {1, 3, 4, 2});
  program_builder p;
  const auto image = p.input("image");
  const auto positions = p.input("positions");
  const program sampling =
      std::move(p).build({p.add("samples", grid_sample{.x = image, .grid = positions})},
                         {.capture = capture_policy::at_prepare});
  const auto alone = run(test_executor(), grid_sample{.x = x.view(), .grid = grid.view()});
  const auto results = run(test_executor(), sluice::run{sampling, {x.view(), grid.view()}});
  EXPECT_EQ(contents_of(results[0]), contents_of(alone));
}

TEST_P(grid_samples, of_nothing) {
  const auto x = make(element_type::f32, {2, 0, 4, 5});
  const auto grid = make(element_type::f32, {2, 3, 3, 2});
  EXPECT_EQ(run(test_executor(), grid_sample{.x = x.view(), .grid = grid.view()}).shape(),
            (extents{2, 0, 3, 3}));
}

TEST_P(grid_samples, refuse_what_does_not_fit) {
  const auto x = make(element_type::f32, {2, 3, 4, 5}).view();
  const auto grid = make(element_type::f32, {2, 6, 7, 2}).view();
  const auto refuse = [&](const std::string& text, const grid_sample& operation) {
    EXPECT_TRUE(
        throws(errc::invalid_argument, text, [&] { (void)run(test_executor(), operation); }));
  };
  refuse("x: is not given", {.grid = grid});
  refuse("grid: is not given", {.x = x});
  refuse("x: is of type u8", {.x = make(element_type::u8, {2, 3, 4, 5}).view(), .grid = grid});
  refuse("grid: is of type i32", {.x = x, .grid = make(element_type::i32, {2, 6, 7, 2}).view()});
  refuse("x: has the shape [2, 3]", {.x = make(element_type::f32, {2, 3}).view(), .grid = grid});
  refuse("x: has the shape [2, 3, 0, 5]",
         {.x = make(element_type::f32, {2, 3, 0, 5}).view(), .grid = grid});
  refuse("grid: has the shape [2, 6, 7, 3]",
         {.x = x, .grid = make(element_type::f32, {2, 6, 7, 3}).view()});
  refuse("grid: has the shape [1, 6, 7, 2]",
         {.x = x, .grid = make(element_type::f32, {1, 6, 7, 2}).view()});
  refuse("grid: has the shape [2, 7, 2]",
         {.x = x, .grid = make(element_type::f32, {2, 7, 2}).view()});
  refuse("mode: 3", {.x = x, .grid = grid, .mode = static_cast<grid_mode>(3)});
  refuse("padding: 3", {.x = x, .grid = grid, .padding = static_cast<grid_padding>(3)});
  refuse("y: has the shape",
         {.x = x, .grid = grid, .y = make(element_type::f32, {2, 3, 6, 6}).view()});
}

INSTANTIATE_TEST_SUITE_P(devices, grid_samples, every_device(), parameter_name);

}  // namespace
}  // namespace sluice::test
