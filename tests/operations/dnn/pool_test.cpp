// SPDX-License-Identifier: Apache-2.0
#include "tests/operations/dnn/real_numbers.hpp"
#include "tests/operations/elementwise/elements.hpp"
#include "tests/support/expect_error.hpp"

#include <sluice/operations/pool.hpp>
#include <sluice/operations/program.hpp>
#include <sluice/operations/reduce.hpp>

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <string>
#include <utility>
#include <vector>

namespace sluice::test {
namespace {

/// A window along one dimension, as a request states it.
struct window_axis {
  std::int64_t window = 1;
  std::int64_t stride = 1;
  std::int64_t before = 0;
  std::int64_t after = 0;
  std::int64_t dilation = 1;
};
std::int64_t entry(const extents& list, std::size_t i, std::int64_t otherwise) {
  return list.empty() ? otherwise : list[i];
}
window_axis axis_of_request(const pool& op, std::size_t i) {
  return {op.window[i], entry(op.strides, i, 1), entry(op.before, i, 0), entry(op.after, i, 0),
          entry(op.dilation, i, 1)};
}

/// Counts the windows one by one.
std::int64_t count_windows(const window_axis& a, std::int64_t extent, bool ceil_mode) {
  const auto last_tap = (a.window - 1) * a.dilation;
  std::int64_t count = 0;
  for (std::int64_t begin = -a.before; begin < extent + a.after; begin += a.stride, ++count) {
    const bool fits = begin + last_tap < extent + a.after;
    if (fits) continue;
    // The first one that does not fit, unless the one before it has reached the end.
    const bool previous_ends = begin - a.stride + last_tap == extent + a.after - 1;
    return ceil_mode && !previous_ends && begin < extent ? count + 1 : count;
  }
  return count;
}

/// The larger of two numbers as `pooling::maximum` states it.
long double larger_of(long double a, long double b) {
  if (std::isnan(a) || std::isnan(b)) return std::numeric_limits<long double>::quiet_NaN();
  if (a == b) return std::signbit(a) ? b : a;
  return a > b ? a : b;
}

class pool_operation : public elementwise_test {
 protected:
  struct wanted_number {
    long double value = 0;
    long double magnitude = 0;  ///< of the numbers from which it is computed
    std::int64_t count = 0;     ///< of elements
  };
  /// The result of one window by definition.
  static wanted_number result_at(const pool& op, const elements& x, const extents& index) {
    const auto shape = x.view().shape();
    std::int64_t divisor = 0;
    std::vector<long double> values;
    for_each_index(op.window, [&](const extents& tap) {
      bool is_counted = true;
      bool is_element = true;
      auto position = index;
      for (std::size_t i = 0; i < op.window.size(); ++i) {
        const auto a = axis_of_request(op, i);
        position[i + 2] = index[i + 2] * a.stride - a.before + tap[i] * a.dilation;
        is_counted = is_counted && position[i + 2] < shape[i + 2] + a.after;
        is_element = is_element && position[i + 2] >= 0 && position[i + 2] < shape[i + 2];
      }
      if (is_element) values.push_back(x[position].real());
      if (is_element || (is_counted && op.count_padding)) ++divisor;
    });
    wanted_number wanted{.count = static_cast<std::int64_t>(values.size())};
    if (op.kind == pooling::maximum) {
      wanted.value = x.type() == element_type::u8   ? 0
                     : x.type() == element_type::i8 ? -128
                                                    : -std::numeric_limits<long double>::infinity();
      for (const auto v : values) wanted.value = larger_of(wanted.value, v);
      return wanted;
    }
    const auto p = op.kind == pooling::average ? 1 : static_cast<long double>(op.p);
    for (const auto v : values) {
      wanted.value += op.kind == pooling::average ? v : std::pow(std::abs(v), p);
      wanted.magnitude += std::pow(std::abs(v), p);
    }
    if (op.kind == pooling::average) {
      wanted.value /= static_cast<long double>(divisor);
      wanted.magnitude /= static_cast<long double>(std::max<std::int64_t>(divisor, 1));
    } else {
      wanted.magnitude = wanted.value = std::pow(wanted.value, 1 / p);
    }
    return wanted;
  }

  /// Compares the result of one window with its definition. Maxima are exact.
  static ::testing::AssertionResult expect_close(const pool& op, const elements& x,
                                                 const extents& index, const number& computed) {
    const auto wanted = result_at(op, x, index);
    const auto bound = bound_of(x.type(), wanted.value, wanted.magnitude, wanted.count);
    if (same(computed.real(), to_real_type(x.type(), wanted.value)) ||
        (op.kind != pooling::maximum && std::abs(computed.real() - wanted.value) <= bound)) {
      return ::testing::AssertionSuccess();
    }
    return ::testing::AssertionFailure()
           << computed.real() << " is not " << wanted.value << ", bound " << bound;
  }

  void expect_pooled(pool op, const elements& x) {
    const auto shape = x.view().shape();
    extents y_shape{shape[0], shape[1]};
    for (std::size_t i = 0; i < op.window.size(); ++i) {
      y_shape.push_back(count_windows(axis_of_request(op, i), shape[i + 2], op.ceil_mode));
    }
    SCOPED_TRACE(std::string(to_string(x.type())) + " " + to_string(shape) + " kind " +
                 std::to_string(static_cast<int>(op.kind)) + " window " + to_string(op.window) +
                 " strides " + to_string(op.strides) + " before " + to_string(op.before) +
                 " after " + to_string(op.after) + " dilation " + to_string(op.dilation) +
                 (op.ceil_mode ? " ceil" : "") + (op.count_padding ? " padding" : "") + " p " +
                 std::to_string(op.p));
    const bool has_output = coin();
    const auto y = make(x.type(), y_shape);
    op.x = x.view();
    if (has_output) op.y = y.view();
    const auto result = run(test_executor(), op);
    ASSERT_EQ(result.shape(), y_shape);
    ASSERT_EQ(result.type(), x.type());
    expect_each(result, [&](const extents& index, const number& computed) {
      return expect_close(op, x, index, computed);
    });
    if (has_output) {
      expect_gaps_untouched(y);
    } else {
      expect_order(x.view(), result);
    }
  }

  /// Random options for windows over x of a random shape.
  pool random_pool(pooling kind, const extents& shape) {
    pool op{.kind = kind};
    extents strides;
    extents before;
    extents after;
    extents dilation;
    for (std::size_t i = 2; i < shape.size(); ++i) {
      const auto d = between(1, 3);
      auto window = between(1, 4);
      auto padding_before = between(0, (window - 1) * d);
      auto padding_after = between(0, (window - 1) * d);
      while ((window - 1) * d >= shape[i] + padding_before + padding_after) {
        --window;
        padding_before = between(0, (window - 1) * d);
        padding_after = between(0, (window - 1) * d);
      }
      op.window.push_back(window);
      strides.push_back(between(1, 4));
      before.push_back(padding_before);
      after.push_back(padding_after);
      dilation.push_back(d);
    }
    op.dilation = dilation;
    op.before = before;
    op.after = after;
    if (coin()) op.strides = strides;
    op.ceil_mode = coin();
    op.count_padding = kind == pooling::average && coin();
    if (kind == pooling::lp) op.p = between(1, 3);
    return op;
  }
  elements channels_last(element_type type, const extents& shape, drawn how) {
    extents order{0};
    for (std::size_t d = 2; d < shape.size(); ++d) order.push_back(static_cast<std::int64_t>(d));
    order.push_back(1);
    return {runtime(), stream(), generator(), type, {.shape = shape, .order = order}, how};
  }
};

constexpr std::array kinds{pooling::maximum, pooling::average, pooling::lp};
drawn numbers_for(pooling kind) {
  return kind == pooling::maximum ? drawn::bits : drawn::numbers;
}
bool takes(pooling kind, element_type type) {
  return kind == pooling::maximum || is_floating_type(type);
}
constexpr std::array pool_types{element_type::f16, element_type::bf16, element_type::f32,
                                element_type::f64, element_type::i8,   element_type::u8};

TEST_P(pool_operation, of_all_types_options_and_strides) {
  for (const auto type : pool_types) {
    for (const auto kind : kinds) {
      if (!takes(kind, type)) continue;
      for (int round = 0; round < 40 && !HasFailure(); ++round) {
        const auto dimensions = between(1, 3);
        extents shape{between(1, 3), between(1, 18)};
        for (std::int64_t i = 0; i < dimensions; ++i) {
          shape.push_back(between(1, dimensions == 1 ? 40 : 9));
        }
        expect_pooled(random_pool(kind, shape), make(type, shape, numbers_for(kind)));
      }
    }
  }
}

TEST_P(pool_operation, of_images_of_both_layouts) {
  for (const auto type : pool_types) {
    for (const auto kind : kinds) {
      if (!takes(kind, type)) continue;
      const auto channels = std::array{3, 16, 40}[static_cast<std::size_t>(between(0, 2))];
      const extents shape{2, channels, 23, 30};
      pool op{.kind = kind, .window = {3, 3}, .strides = {2, 2}, .before = {1, 1}};
      if (coin()) op.after = {1, 1};
      expect_pooled(op, channels_last(type, shape, numbers_for(kind)));
      expect_pooled(op, make_contiguous(type, shape, numbers_for(kind)));
      expect_pooled({.kind = kind, .window = {2, 2}, .strides = {2, 2}},
                    make_contiguous(type, shape, numbers_for(kind)));
      expect_pooled({.kind = kind, .window = {5, 5}, .before = {2, 2}, .after = {2, 2}},
                    channels_last(type, shape, numbers_for(kind)));
    }
  }
}

// A host device reduces vectors of neighbouring windows, and those at the ends of a row one by one.
TEST_P(pool_operation, of_short_windows) {
  for (const std::int64_t window : {1, 2, 3, 4}) {
    for (const std::int64_t stride : {1, 2}) {
      for (const std::int64_t width : {4, 9, 31, 64, 131}) {
        const auto padding = between(0, window - 1);
        expect_pooled({.kind = pooling::maximum,
                       .window = {between(1, 3), window},
                       .strides = {between(1, 2), stride},
                       .before = {0, padding},
                       .after = {0, between(0, window - 1)},
                       .ceil_mode = coin()},
                      make_contiguous(element_type::f32, {2, 3, 7, width}, drawn::bits));
      }
    }
  }
}

// Lines that are cut, and windows that are too large for a line.
TEST_P(pool_operation, of_long_lines) {
  for (const auto kind : kinds) {
    const auto type = coin() ? element_type::f32 : element_type::bf16;
    expect_pooled({.kind = kind, .window = {40}, .strides = {16}, .before = {7}},
                  make_contiguous(type, {1, 2, 40'003}, drawn::numbers));
    expect_pooled({.kind = kind, .window = {2}, .strides = {5'000}, .dilation = {7}},
                  make_contiguous(element_type::f64, {2, 1, 60'000}, drawn::numbers));
    expect_pooled({.kind = kind, .window = {65}, .strides = {3}},
                  channels_last(element_type::f32, {1, 4'096, 70}, drawn::numbers));
    expect_pooled({.kind = kind, .window = {262'200}, .strides = {2}},
                  make_contiguous(element_type::f32, {1, 1, 262'204}, drawn::numbers));
    // Windows that are padding but for one element, and windows with many neighbours.
    expect_pooled(
        {.kind = kind, .window = {30'000}, .strides = {500}, .before = {29'999}, .after = {29'999}},
        make_contiguous(element_type::f32, {1, 1, 1}, drawn::numbers));
    expect_pooled({.kind = kind, .window = {20'000}, .strides = {30}},
                  make_contiguous(element_type::f32, {1, 1, 20'300}, drawn::numbers));
  }
}

TEST_P(pool_operation, of_a_number_of_windows) {
  for (const auto type : pool_types) {
    for (const auto kind : kinds) {
      if (!takes(kind, type)) continue;
      for (int round = 0; round < 12 && !HasFailure(); ++round) {
        const auto dimensions = between(1, 3);
        extents shape{between(1, 3), between(1, 9)};
        adaptive_pool op{.kind = kind};
        for (std::int64_t i = 0; i < dimensions; ++i) {
          shape.push_back(between(1, 9));
          op.size.push_back(between(1, 7));
        }
        const auto x = make(type, shape, numbers_for(kind));
        op.x = x.view();
        SCOPED_TRACE(std::string(to_string(type)) + " " + to_string(shape) + " size " +
                     to_string(op.size));
        const auto result = run(test_executor(), op);
        expect_order(x.view(), result);
        expect_each(result, [&](const extents& index, const number& computed) {
          // The window of the result, as one without padding that begins at its first element.
          pool one{.kind = kind};
          auto begin = index;
          for (std::size_t i = 0; i < op.size.size(); ++i) {
            const auto d = i + 2;
            const auto end = ((index[d] + 1) * shape[d] + op.size[i] - 1) / op.size[i];
            begin[d] = index[d] * shape[d] / op.size[i];
            one.window.push_back(end - begin[d]);
          }
          return expect_close(one, x, begin, computed);
        });
      }
    }
  }
}

// `torch.nn.functional.avg_pool1d` and `max_pool1d` give these numbers.
TEST_P(pool_operation, as_pytorch_does) {
  auto x = make_contiguous(element_type::f32, {1, 1, 5});
  x.set(std::vector<float>{1, 2, 3, 4, 8});
  const auto expect = [&](const pool& op, const std::vector<long double>& wanted) {
    const auto y = run(test_executor(), op);
    ASSERT_EQ(y.shape(), (extents{1, 1, static_cast<std::int64_t>(wanted.size())}));
    expect_elements(
        y, [&](const extents& i) { return number(wanted[static_cast<std::size_t>(i[2])]); });
  };
  pool op{.x = x.view(), .kind = pooling::average, .window = {4}, .strides = {4}};
  op.before = op.after = {1};
  op.count_padding = true;
  expect(op, {1.5});
  // The last window has 4, 8 and a padded position, but not the one beyond.
  op.ceil_mode = true;
  expect(op, {1.5, 4});
  op.count_padding = false;
  expect(op, {2, 6});
  // No window begins in the padding.
  expect({.x = x.view(), .window = {2}, .strides = {3}, .after = {1}, .ceil_mode = true}, {2, 8});
  expect({.x = x.view(), .window = {1}, .strides = {2}, .ceil_mode = true}, {1, 3, 8});
}

TEST_P(pool_operation, of_windows_without_elements) {
  const auto one = make_contiguous(element_type::f32, {1, 1, 1});
  const auto y_of = [&](pooling kind, bool count_padding) {
    return run(test_executor(), pool{.x = one.view(),
                                     .kind = kind,
                                     .window = {2},
                                     .before = {1},
                                     .after = {1},
                                     .dilation = {2},
                                     .count_padding = count_padding});
  };
  const auto expect = [&](const tensor& y, long double wanted) {
    expect_elements(y, [&](const extents&) { return number(wanted); });
  };
  expect(y_of(pooling::maximum, false), -std::numeric_limits<long double>::infinity());
  expect(y_of(pooling::average, false), std::numeric_limits<long double>::quiet_NaN());
  expect(y_of(pooling::average, true), 0);
  expect(y_of(pooling::lp, false), 0);
}

TEST_P(pool_operation, over_all_elements_is_a_reduction) {
  const auto x = make_contiguous(element_type::f32, {3, 5, 7, 9});
  const auto pooled = run(test_executor(), pool{.x = x.view(), .window = {7, 9}});
  const auto reduced =
      run(test_executor(),
          reduce{.x = x.view(), .kind = reduction::max, .axes = {2, 3}, .keep_dims = true});
  EXPECT_EQ(pooled.shape(), reduced.shape());
  EXPECT_EQ(contents_of(pooled), contents_of(reduced));
}

TEST_P(pool_operation, of_repeated_elements) {
  const auto x = make_contiguous(element_type::f32, {1, 4, 1, 1});
  const auto y = run(
      test_executor(),
      pool{.x = x.view().broadcast_to({2, 4, 5, 6}), .kind = pooling::average, .window = {2, 3}});
  EXPECT_EQ(y.shape(), (extents{2, 4, 4, 4}));
  EXPECT_EQ(y.strides(), (extents{64, 16, 4, 1}));
  expect_each(y, [&](const extents& i, const number& computed) {
    return std::abs(computed.real() - x[{0, i[1], 0, 0}].real()) < 1e-6L;
  });
}

TEST_P(pool_operation, of_no_images) {
  constexpr std::int64_t many = std::int64_t{1} << 40U;
  const auto x = make_contiguous(element_type::f32, {0}).view();
  const auto view = tensor(x.block(), element_type::f32, {0, many, many, 8});
  EXPECT_EQ(run(test_executor(), pool{.x = view, .window = {2, 2}}).shape(),
            (extents{0, many, many - 1, 7}));
}

TEST_P(pool_operation, in_a_program) {
  program_builder p;
  const auto x = p.input("x");
  const auto halves = p.add("halves", pool{.x = x, .window = {2, 2}, .strides = {2, 2}});
  const auto program = std::move(p).build(
      {p.add("means", pool{.x = halves, .kind = pooling::average, .window = {2, 2}})});
  const auto image = make(element_type::f32, {1, 2, 8, 8});
  const auto result = run(test_executor(), sluice::run{program, {image.view()}});
  expect_each(result[0], [&](const extents& i, const number& computed) {
    long double wanted = 0;
    for (int k = 0; k < 4; ++k) {
      const auto row = 2 * (i[2] + k / 2);
      const auto column = 2 * (i[3] + k % 2);
      const auto at = [&](std::int64_t r, std::int64_t c) {
        return image[{i[0], i[1], row + r, column + c}].real();
      };
      wanted += std::max(std::max(at(0, 0), at(0, 1)), std::max(at(1, 0), at(1, 1))) / 4;
    }
    return std::abs(computed.real() - wanted) < 1e-6L;
  });
}

TEST_P(pool_operation, refusals) {
  const auto refuse = [&](const std::string& text, const pool& op) {
    EXPECT_TRUE(throws(errc::invalid_argument, text, [&] { (void)run(test_executor(), op); }))
        << text;
  };
  constexpr auto largest = std::numeric_limits<std::int64_t>::max();
  const auto x = make(element_type::f32, {2, 3, 5, 6}).view();
  const auto bytes = make(element_type::u8, {2, 3, 5, 6}).view();
  refuse("x: is not given", {.window = {2, 2}});
  refuse("x: is of type i32", {.x = make(element_type::i32, {1, 1, 3}).view(), .window = {2}});
  refuse("x: is of type u8", {.x = bytes, .kind = pooling::average, .window = {2, 2}});
  refuse("window: has 1 number, but x of shape [2, 3, 5, 6] has 2 spatial dimensions",
         {.x = x, .window = {2}});
  refuse("x: has the shape [3, 4], but must be a batch",
         {.x = make(element_type::f32, {3, 4}).view(), .window = {2}});
  refuse("x: has the shape [2, 3, 0]",
         {.x = make(element_type::f32, {2, 3, 0}).view(), .window = {1}});
  refuse("kind: 3 is not a valid value",
         {.x = x, .kind = static_cast<pooling>(3), .window = {2, 2}});
  refuse("window: is not given; reduce takes", {.x = x});
  refuse("window: is [1, 1, 1, 1]", {.x = x, .window = {1, 1, 1, 1}});
  refuse("window: is [2, 0]", {.x = x, .window = {2, 0}});
  refuse("window: takes 6 elements along dimension 2 of x, but the padded x has 5",
         {.x = x, .window = {6, 1}});
  refuse("window: takes 7 elements along dimension 3 of x when dilated, but the padded x has 6",
         {.x = x, .window = {1, 4}, .dilation = {1, 2}});
  refuse("window: is [9223372036854775807, 1]",
         {.x = x, .window = {largest, 1}, .dilation = {2, 1}});
  refuse("strides: is [1, 0]", {.x = x, .window = {2, 2}, .strides = {1, 0}});
  refuse("strides: is [1]", {.x = x, .window = {2, 2}, .strides = {1}});
  refuse("dilation: is [1, -1]", {.x = x, .window = {2, 2}, .dilation = {1, -1}});
  refuse("before: is [-1, 0]", {.x = x, .window = {2, 2}, .before = {-1, 0}});
  refuse(
      "before: is 2 along dimension 3 of x, but padding must be less than the window, which takes "
      "2",
      {.x = x, .window = {2, 2}, .before = {0, 2}});
  refuse("after: is 2", {.x = x, .window = {2, 2}, .after = {2, 0}});
  refuse("after: is [1, 1, 1]", {.x = x, .window = {2, 2}, .after = {1, 1, 1}});
  refuse("after: ", {.x = x,
                     .window = {largest / 2, 1},
                     .before = {largest / 2 - 1, 0},
                     .after = {largest / 2 - 1, 0}});
  refuse("count_padding: is true", {.x = x, .window = {2, 2}, .count_padding = true});
  refuse("p: is 0", {.x = x, .kind = pooling::lp, .window = {2, 2}, .p = 0});
  refuse("p: is 1", {.x = x, .window = {2, 2}, .p = 1});
  const auto refuse_adaptive = [&](const std::string& text, const adaptive_pool& adaptive) {
    EXPECT_TRUE(throws(errc::invalid_argument, text, [&] { (void)run(test_executor(), adaptive); }))
        << text;
  };
  refuse_adaptive("size: is not given", {.x = x});
  refuse_adaptive("size: is [1, 0]", {.x = x, .size = {1, 0}});
  refuse_adaptive("size: is [1, 9223372036854775807]", {.x = x, .size = {1, largest}});
  refuse_adaptive("size: has 3 numbers, but x of shape [2, 3, 5, 6] has 2 spatial dimensions",
                  {.x = x, .size = {1, 1, 1}});
  refuse_adaptive("x: is of type u8", {.x = bytes, .size = {1, 1}});
  refuse_adaptive("y: has the shape [2, 3, 5, 6]", {.x = x, .size = {2, 2}, .y = x});
  refuse("y: is of type u8", {.x = x, .window = {2, 2}, .y = bytes});
  refuse("y: has the shape [2, 3, 5, 6]", {.x = x, .window = {2, 2}, .y = x});
  refuse("y: ", {.x = x, .window = {1, 1}, .y = x});
}

INSTANTIATE_TEST_SUITE_P(devices, pool_operation, every_device(), parameter_name);

}  // namespace
}  // namespace sluice::test
