// SPDX-License-Identifier: Apache-2.0
// Convolutions and transposed ones in one, two and three dimensions.
#include "operations/dnn/element_call.hpp"
#include "tests/operations/dnn/convolution_fixture.hpp"
#include "tests/support/expect_error.hpp"

#include <sluice/operations/operation.hpp>

#include <gtest/gtest.h>

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <tuple>
#include <vector>

namespace sluice::test {
namespace {

class convolution_operation : public convolution_fixture {
 protected:
  /// Calls `visit` with a number of dimensions and whether the convolution is transposed.
  template <class Visit>
  void for_each_kind(const Visit& visit) {
    for (const bool is_transposed : {false, true}) {
      for (const std::size_t rank : {1U, 2U, 3U}) visit(rank, is_transposed);
    }
  }
};

TEST_P(convolution_operation, random_geometries) {
  for_each_kind([&](std::size_t rank, bool is_transposed) {
    for (int i = 0; i < 25; ++i) {
      expect_convolution(random_convolution(generator(), rank, is_transposed),
                         {.gives_y = i % 2 == 0});
    }
  });
}

TEST_P(convolution_operation, any_layouts) {
  for_each_kind([&](std::size_t rank, bool is_transposed) {
    for (int i = 0; i < 12; ++i) {
      const auto order = [&] {
        return draw(0, 1) == 0 ? extents() : channels_last(rank + 2);
      };
      const auto same = i < 6 ? channels_last(rank + 2) : extents();
      expect_convolution(random_convolution(generator(), rank, is_transposed),
                         {.x_order = i < 6 ? same : order(),
                          .w_order = i < 6 ? same : order(),
                          .y_order = i < 6 ? same : order(),
                          .x_gap = draw(0, 5),
                          .y_gap = draw(0, 5),
                          .offset = static_cast<std::size_t>(draw(0, 3)),
                          .gives_y = draw(0, 3) != 0,
                          .is_random = i > 9});
    }
  });
}

TEST_P(convolution_operation, channels_of_networks) {
  for_each_kind([&](std::size_t rank, bool is_transposed) {
    for (const std::int64_t groups : {1, 2, 32}) {
      convolution_description d{.x = {2, 32},
                                .w = {32, 32 / groups},
                                .groups = groups,
                                .is_transposed = is_transposed,
                                .has_bias = draw(0, 1) == 1,
                                .has_residual = draw(0, 1) == 1,
                                .activation = activation::relu,
                                .math = draw(0, 1) == 1 ? math_mode::tf32 : math_mode::f32};
      for (std::size_t i = 0; i < rank; ++i) {
        d.x.push_back(rank == 3 ? 5 : 9);
        d.w.push_back(3);
        d.strides.push_back(2);
        d.before.push_back(1);
        d.after.push_back(draw(0, 1));
      }
      const auto order = draw(0, 1) == 1 ? channels_last(rank + 2) : extents();
      expect_convolution(d, {.x_order = order, .w_order = order, .y_order = order});
    }
  });
}

// The host divides these among threads.
TEST_P(convolution_operation, large_convolutions) {
  for (const std::int64_t images : {1, 6}) {
    const std::int64_t side = images == 1 ? 40 : 20;
    expect_convolution({.x = {images, 8, side, 30, 31},
                        .w = {12, 8, 3, 3, 3},
                        .before = {1, 0, 2},
                        .after = {2, 1, 0},
                        .has_bias = true,
                        .has_residual = true,
                        .activation = activation::relu},
                       {.x_gap = 3, .y_gap = 5});
    expect_convolution({.x = {images, 16, 40, side},
                        .w = {16, 20, 5, 5},
                        .strides = {2, 2},
                        .before = {2, 1},
                        .after = {1, 2},
                        .output_padding = {1, 0},
                        .is_transposed = true,
                        .has_bias = true,
                        .has_residual = true},
                       {.x_gap = 3, .y_gap = 5});
  }
}

// A transposed convolution whose result reaches beyond the last filter.
TEST_P(convolution_operation, output_padding_up_to_the_dilation) {
  expect_convolution({.x = {2, 3, 5},
                      .w = {3, 4, 3},
                      .strides = {2},
                      .dilation = {6},
                      .output_padding = {5},
                      .is_transposed = true,
                      .has_bias = true});
  expect_convolution({.x = {2, 3, 5, 4},
                      .w = {3, 4, 1, 2},
                      .strides = {3, 2},
                      .output_padding = {2, 1},
                      .is_transposed = true,
                      .has_bias = true,
                      .activation = activation::relu});
  expect_convolution({.x = {1, 2, 1, 3},
                      .w = {2, 2, 2, 2},
                      .strides = {4, 1},
                      .before = {1, 0},
                      .after = {0, 1},
                      .is_transposed = true});
}

TEST_P(convolution_operation, nothing_to_sum_is_the_bias_and_the_residual) {
  for (const bool has_bias : {false, true}) {
    for (const bool has_residual : {false, true}) {
      expect_convolution({.x = {2, 0, 4},
                          .w = {3, 0, 2},
                          .has_bias = has_bias,
                          .has_residual = has_residual,
                          .activation = activation::relu},
                         {.y_gap = 3});
      expect_convolution({.x = {2, 0, 4, 3, 2},
                          .w = {0, 3, 2, 2, 2},
                          .is_transposed = true,
                          .has_bias = has_bias,
                          .has_residual = has_residual},
                         {.gives_y = false});
    }
  }
}

TEST_P(convolution_operation, empty_results) {
  const auto y = run(test_executor(),
                     convolution{.x = numbers({1, 3, 8}).slice(0, 0, 0), .w = numbers({4, 3, 3})});
  EXPECT_EQ(y.shape(), (extents{0, 4, 6}));
  const auto z =
      run(test_executor(), transposed_convolution{.x = numbers({2, 3, 8, 7}),
                                                  .w = numbers({3, 1, 3, 3}).slice(1, 0, 0)});
  EXPECT_EQ(z.shape(), (extents{2, 0, 10, 9}));
}

TEST_P(convolution_operation, keeps_nan_and_infinity) {
  constexpr auto infinity = std::numeric_limits<float>::infinity();
  const std::vector<float> x{1, NAN, 2, 3, infinity, 4};
  const std::vector<float> w{1, 1};
  const auto put = [&](const std::vector<float>& values, const extents& shape) {
    return tensor(upload(runtime(), stream(), values)).reshape(shape);
  };
  const auto y = row_major(run(
      test_executor(),
      convolution{.x = put(x, {1, 1, 6}), .w = put(w, {1, 1, 2}), .activation = activation::relu}));
  EXPECT_TRUE(std::isnan(y[0]) && std::isnan(y[1]));
  EXPECT_EQ(y[2], 5);
  EXPECT_EQ(y[3], infinity);
  EXPECT_EQ(y[4], infinity);
  const auto z = row_major(
      run(test_executor(), transposed_convolution{.x = put(x, {1, 1, 6}), .w = put(w, {1, 1, 2})}));
  EXPECT_EQ(z[0], 1);
  EXPECT_TRUE(std::isnan(z[1]) && std::isnan(z[2]));
  EXPECT_EQ(z[3], 5);
  EXPECT_EQ(z[4], infinity);
  EXPECT_EQ(z[6], 4);
}

TEST_P(convolution_operation, residuals_may_repeat_elements) {
  const auto x = numbers({2, 3, 9});
  const auto w = numbers({4, 3, 3});
  const auto residual = numbers({1, 4, 1});
  const auto repeated = run(
      test_executor(), convolution{.x = x, .w = w, .residual = residual.broadcast_to({2, 4, 7})});
  const auto biased =
      run(test_executor(), convolution{.x = x, .w = w, .bias = residual.reshape({4})});
  EXPECT_LE(relative_error(row_major(repeated), row_major(biased)), error_bound<float>());
}

TEST_P(convolution_operation, same_padding_gives_a_result_for_each_stride) {
  for (int i = 0; i < 8; ++i) {
    const extents x{draw(1, 20), draw(1, 20)}, taps{draw(1, 5), draw(1, 5)};
    const extents strides{draw(1, 3), draw(1, 3)}, dilation{draw(1, 2), draw(1, 2)};
    for (const auto odd : {odd_padding::after, odd_padding::before}) {
      const auto padding = same_padding(x, taps, strides, dilation, odd);
      const convolution_description d{.x = {1, 2, x[0], x[1]},
                                      .w = {3, 2, taps[0], taps[1]},
                                      .strides = strides,
                                      .before = padding.before,
                                      .after = padding.after,
                                      .dilation = dilation};
      const auto y = output_shape(d);
      for (std::size_t axis = 0; axis < 2; ++axis) {
        EXPECT_EQ(y[axis + 2], (x[axis] + strides[axis] - 1) / strides[axis]);
        const auto difference = padding.after[axis] - padding.before[axis];
        EXPECT_TRUE(difference == 0 || difference == (odd == odd_padding::after ? 1 : -1));
      }
      expect_convolution(d);
    }
  }
  EXPECT_TRUE(throws(errc::invalid_argument, "taps: ", [] { (void)same_padding({4}, {0}); }));
  EXPECT_TRUE(throws(errc::invalid_argument, "strides: ", [] {
    (void)same_padding({4}, {2}, {1, 1});
  }));
}

/// The sums of our kernel, computed on the host.
TEST(convolution_element, equals_the_definition) {
  auto generator = make_generator();
  for (int i = 0; i < 60; ++i) {
    const auto rank = static_cast<std::size_t>(i % 3 + 1);
    auto d = random_convolution(generator, rank, i % 2 == 0);
    d.has_bias = d.has_residual = false;
    d.activation = activation::none;
    const bool is_last = generator() % 2 == 0;
    const auto shape = output_shape(d);
    SCOPED_TRACE(::testing::PrintToString(d));
    const convolution_problem p{d,
                                random_values<float>(generator, element_count(d.x)),
                                random_values<float>(generator, element_count(d.w)),
                                {},
                                {}};
    // Without gaps, in the order of memory.
    const auto layout = [&](const extents& tensor_shape) {
      tensor_spec s = tensor_spec::row_major(element_type::f32, tensor_shape);
      if (!is_last) return s;
      std::int64_t step = 1;
      const auto order = channels_last(tensor_shape.size());
      for (std::size_t j = tensor_shape.size(); j-- > 0;) {
        const auto dimension = static_cast<std::size_t>(order[j]);
        s.strides[dimension] = step;
        step *= tensor_shape[dimension];
      }
      return s;
    };
    const auto position = [](const tensor_spec& s, const extents& index) {
      std::int64_t sum = 0;
      for (std::size_t j = 0; j < index.size(); ++j) sum += index[j] * s.strides[j];
      return static_cast<std::size_t>(sum);
    };
    const auto arrange = [&](const std::vector<float>& values, const tensor_spec& s) {
      std::vector<float> arranged(values.size());
      std::size_t next = 0;
      for_each_index(s.shape,
                     [&](const extents& index) { arranged[position(s, index)] = values[next++]; });
      return arranged;
    };
    const auto xs = layout(d.x), ws = layout(d.w), ys = layout(shape);
    const auto x = arrange(p.x, xs), w = arrange(p.w, ws);
    operations::convolution_shape key;
    key.transposed = d.is_transposed ? 1 : 0;
    key.n = d.x[0];
    key.c = d.is_transposed ? shape[1] : d.x[1];
    key.k = d.is_transposed ? d.x[1] : shape[1];
    const auto set = [&](operations::spatial& target, const extents& list, std::size_t skipped,
                         std::int64_t otherwise) {
      target = {otherwise, otherwise, otherwise};
      for (std::size_t j = 0; j < rank; ++j) {
        target[3 - rank + j] = number_of(list, j + skipped, otherwise);
      }
    };
    set(key.input, d.is_transposed ? shape : d.x, 2, 1);
    set(key.output, d.is_transposed ? d.x : shape, 2, 1);
    set(key.taps, d.w, 2, 1);
    set(key.before, d.before, 0, 0);
    set(key.stride, d.strides, 0, 1);
    set(key.dilation, d.dilation, 0, 1);
    key.groups = d.groups;
    key.order = is_last ? operations::channel_order::last : operations::channel_order::first;
    key.x_distance = key.x_image();
    key.y_distance = key.y_image();
    key.element = static_cast<std::int64_t>(element_type::f32);
    const auto call = operations::make_element_call(key);
    std::vector<float> y(element_count(shape));
    ASSERT_EQ(call.count(), static_cast<std::int64_t>(y.size()));
    for (std::int64_t e = 0; e < call.count(); ++e) {
      const auto index = operations::index_of(call, e);
      ASSERT_EQ(operations::position_of(call, index), e);
      y[static_cast<std::size_t>(e)] = operations::sum_of_products(call, index, x.data(), w.data());
    }
    const auto expected = convolution_reference(p);
    std::vector<float> computed;
    for_each_index(shape,
                   [&](const extents& index) { computed.push_back(y[position(ys, index)]); });
    EXPECT_LE(relative_error(computed, expected), error_bound<float>());
  }
}

INSTANTIATE_TEST_SUITE_P(devices, convolution_operation, every_device(), parameter_name);

}  // namespace
}  // namespace sluice::test
