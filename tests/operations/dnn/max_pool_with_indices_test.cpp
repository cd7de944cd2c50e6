// SPDX-License-Identifier: Apache-2.0
#include "tests/operations/elementwise/elements.hpp"

#include <sluice/operations/max_pool_with_indices.hpp>
#include <sluice/operations/pool.hpp>
#include <sluice/operations/program.hpp>
#include <sluice/operations/scatter.hpp>
#include <sluice/operations/transfer.hpp>

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <string>
#include <utility>

namespace sluice::test {
namespace {

constexpr auto pooled_types = {element_type::f16, element_type::bf16, element_type::f32,
                               element_type::f64, element_type::i8,   element_type::u8};

class max_pools_with_indices : public elementwise_test {
 protected:
  struct wanted_maximum {
    number value{};
    std::int64_t index = -1;
  };
  /// The maximum of one window by definition.
  static wanted_maximum result_at(const max_pool_with_indices& op, const elements& x,
                                  const extents& index) {
    const auto shape = x.view().shape();
    wanted_maximum wanted;
    wanted.value = x.type() == element_type::u8   ? 0
                   : x.type() == element_type::i8 ? -128
                                                  : -std::numeric_limits<long double>::infinity();
    for_each_index(op.window, [&](const extents& tap) {
      auto position = index;
      std::int64_t flat = op.within_plane ? 0 : index[0] * shape[1] + index[1];
      for (std::size_t i = 0; i < op.window.size(); ++i) {
        const auto stride = op.strides.empty() ? 1 : op.strides[i];
        const auto before = op.before.empty() ? 0 : op.before[i];
        const auto dilation = op.dilation.empty() ? 1 : op.dilation[i];
        position[i + 2] = index[i + 2] * stride - before + tap[i] * dilation;
        if (position[i + 2] < 0 || position[i + 2] >= shape[i + 2]) return;
        flat = flat * shape[i + 2] + position[i + 2];
      }
      const auto value = x[position];
      const bool is_above = std::isnan(value.real()) ? !std::isnan(wanted.value.real())
                                                     : value.real() > wanted.value.real();
      if (wanted.index < 0 || is_above) wanted = {value, flat};
    });
    return wanted;
  }
  void check(max_pool_with_indices op, const elements& x) {
    SCOPED_TRACE(std::string(to_string(x.type())) + ' ' + to_string(x.view().shape()) +
                 ", window " + to_string(op.window));
    const auto shape = run(test_executor(), pool{.x = x.view(),
                                                 .window = op.window,
                                                 .strides = op.strides,
                                                 .before = op.before,
                                                 .after = op.after,
                                                 .dilation = op.dilation,
                                                 .ceil_mode = op.ceil_mode})
                           .shape();
    op.x = x.view();
    const auto y = make(x.type(), shape);
    const auto indices = make(element_type::i64, shape);
    const bool is_given = coin();
    if (is_given) {
      op.y = y.view();
      op.indices = indices.view();
    }
    const auto results = run(test_executor(), op);
    ASSERT_EQ(results.size(), 2U);
    EXPECT_EQ(results[0].shape(), shape);
    EXPECT_EQ(results[0].type(), x.type());
    expect_elements(results[0], [&](const extents& i) { return result_at(op, x, i).value; });
    expect_elements(results[1], [&](const extents& i) {
      return number(static_cast<long double>(result_at(op, x, i).index));
    });
    if (!is_given) return;
    EXPECT_EQ(results, (tensors{y.view(), indices.view()}));
    expect_gaps_untouched(y);
    expect_gaps_untouched(indices);
  }
  max_pool_with_indices random_pool(const extents& shape) {
    max_pool_with_indices op{.ceil_mode = coin(), .within_plane = coin()};
    for (std::size_t d = 2; d < shape.size(); ++d) {
      const auto extent = shape[d];
      const auto window = between(1, std::min<std::int64_t>(extent, 4));
      const auto dilation =
          window == 1 ? 1 : between(1, std::max<std::int64_t>((extent - 1) / (window - 1), 1));
      const auto reach = (window - 1) * dilation;
      op.window.push_back(window);
      op.dilation.push_back(dilation);
      op.strides.push_back(between(1, 3));
      op.before.push_back(between(0, reach));
      op.after.push_back(between(0, reach));
    }
    return op;
  }
};

TEST_P(max_pools_with_indices, of_all_types_shapes_and_strides) {
  for (const auto type : pooled_types) {
    for (const auto how : {drawn::few, drawn::numbers, drawn::bits}) {
      for (std::size_t rank = 3; rank <= 5; ++rank) {
        extents shape{between(0, 3), between(1, 3)};
        while (shape.size() < rank) shape.push_back(between(1, 8));
        check(random_pool(shape), make(type, shape, how));
      }
    }
  }
}

TEST_P(max_pools_with_indices, of_many_windows) {
  const auto x = make(element_type::f32, {2, 5, 61, 83}, drawn::few);
  check({.window = {3, 3}, .strides = {2, 2}, .before = {1, 1}, .after = {1, 1}}, x);
  check({.window = {5, 2}, .within_plane = true}, x);
}

// A host device computes blocks of a line at once, in either direction of its strides.
TEST_P(max_pools_with_indices, of_long_lines) {
  for (const auto type : pooled_types) {
    const auto how = coin() ? drawn::few : drawn::bits;
    for (const std::int64_t step : {1, 2, 3}) {
      check({.window = {2, 3},
             .strides = {1, step},
             .before = {0, 2},
             .after = {1, 2},
             .dilation = {1, between(1, 2)},
             .within_plane = coin()},
            make(type, {1, 2, 3, between(600, 900)}, how));
    }
    check({.window = {3}}, make_contiguous(type, {1, 1, between(250, 270)}, how));
    check({.window = {3}, .before = {2}, .after = {2}, .ceil_mode = true},
          make_contiguous(type, {2, 1, between(500, 600)}, how));
  }
}

// Lines of few windows, and windows of many taps, are computed one by one.
TEST_P(max_pools_with_indices, of_few_windows_and_of_many_taps) {
  for (const auto type : pooled_types) {
    for (const std::int64_t columns : {3, 4, 5}) {
      check({.window = {3}}, make(type, {2, 3, columns + 2}, drawn::few));
    }
    for (const std::int64_t taps : {255, 256, 257}) {
      check({.window = {taps}, .before = {40}}, make(type, {1, 2, 300}, drawn::numbers));
    }
    check({.window = {16, 16}}, make(type, {1, 1, 18, 24}, drawn::few));
    check({.window = {17, 16}}, make(type, {1, 1, 18, 24}, drawn::few));
    check({.window = {4, 4, 16}}, make(type, {1, 1, 5, 4, 21}, drawn::few));
  }
}

// The first one of equal maxima, the first NaN, and -infinity above nothing.
TEST_P(max_pools_with_indices, of_special_lines) {
  constexpr float infinite = std::numeric_limits<float>::infinity();
  constexpr float nan = std::numeric_limits<float>::quiet_NaN();
  auto x = make_contiguous(element_type::f32, {1, 1, 40});
  x.set(std::vector<float>{-infinite, -infinite, nan, 0, -0.0F, nan, infinite, -infinite});
  for (const std::int64_t window : {1, 2, 3, 5}) {
    for (const std::int64_t step : {1, 2}) check({.window = {window}, .strides = {step}}, x);
  }
  x.set(std::vector<float>{-infinite});
  check({.window = {4}}, x);
  x.set(std::vector<float>{nan});
  check({.window = {4}}, x);
}

// Dilation beside padding makes windows without elements.
TEST_P(max_pools_with_indices, of_windows_in_the_padding) {
  for (const auto type : pooled_types) {
    check({.window = {2}, .before = {4}, .after = {4}, .dilation = {4}}, make(type, {1, 2, 2}));
  }
}

TEST_P(max_pools_with_indices, are_undone_by_scatter_elements) {
  const auto x = make(element_type::f32, {2, 3, 4, 6});
  const auto pooled = run(
      test_executor(), max_pool_with_indices{.x = x.view(), .window = {2, 2}, .strides = {2, 2}});
  const auto zeros =
      run(test_executor(), fill{.shape = extents{2 * 3 * 4 * 6}, .type = element_type::f32});
  const auto restored = run(test_executor(), scatter_elements{.x = zeros,
                                                              .indices = pooled[1].reshape({-1}),
                                                              .updates = pooled[0].reshape({-1})});
  expect_elements(restored.reshape({2, 3, 4, 6}), [&](const extents& i) {
    const auto row = i[2] / 2 * 2;
    const auto column = i[3] / 2 * 2;
    auto largest = -std::numeric_limits<long double>::infinity();
    for (std::int64_t k = 0; k < 4; ++k) {
      largest = std::max(largest, x[{i[0], i[1], row + k / 2, column + k % 2}].real());
    }
    return x[i].real() == largest ? x[i] : number(0);
  });
}

TEST_P(max_pools_with_indices, as_a_step_of_a_program) {
  program_builder p;
  const auto x_input = p.input("x");
  const auto pooled =
      p.add("pooled", max_pool_with_indices{.x = x_input, .window = {3}, .within_plane = true});
  const auto x = make(element_type::f32, {1, 1, 9});
  const auto results =
      run(test_executor(), sluice::run{std::move(p).build({pooled[1]}), {x.view()}});
  const max_pool_with_indices op{.window = {3}, .within_plane = true};
  expect_elements(results[0], [&](const extents& i) {
    return number(static_cast<long double>(result_at(op, x, i).index));
  });
}

INSTANTIATE_TEST_SUITE_P(devices, max_pools_with_indices, every_device(), parameter_name);

}  // namespace
}  // namespace sluice::test
