// SPDX-License-Identifier: Apache-2.0
#include "tests/operations/dnn/real_numbers.hpp"
#include "tests/operations/elementwise/elements.hpp"
#include "tests/support/expect_error.hpp"

#include <sluice/operations/elementwise.hpp>
#include <sluice/operations/normalization.hpp>

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <map>
#include <string>
#include <vector>

namespace sluice::test {
namespace {

class normalization_operation : public elementwise_test {
 protected:
  /// A row of numbers: the elements of X that are normalized together.
  using row = std::vector<long double>;
  using indices = std::vector<std::int64_t>;

  /// Compares a normalization with its definition. `row_of` names the row of an index.
  /// `summarize(values)` works out what its results depend on, and `normalize(summary, index,
  /// value)` gives the result at an index.
  template <class Operation, class RowOf, class Summarize, class Normalize>
  void expect_normalized(Operation op, const elements& x, const RowOf& row_of,
                         const Summarize& summarize, const Normalize& normalize) {
    std::map<indices, row> rows;
    for_each_index(x.view().shape(),
                   [&](const extents& index) { rows[row_of(index)].push_back(x[index].real()); });
    std::map<indices, decltype(summarize(row()))> summaries;
    for (const auto& [name, values] : rows) summaries.emplace(name, summarize(values));
    const auto how = between(0, 2);
    const auto y = make(x.type(), x.view().shape());
    if (how == 1) op.y = y.view();
    if (how == 2) op.y = x.view();
    op.x = x.view();
    const auto result = run(test_executor(), op);
    EXPECT_EQ(result.shape(), x.view().shape());
    EXPECT_EQ(result.type(), x.type());
    if (how == 0) expect_order_of({x.view()}, result);
    expect_each(result, [&](const extents& index, const number& computed) {
      const auto name = row_of(index);
      const auto [wanted, magnitude] = normalize(summaries.at(name), index, x[index].real());
      const auto rounded = to_real_type(x.type(), wanted);
      const auto bound =
          bound_of(x.type(), wanted, magnitude, static_cast<std::int64_t>(rows.at(name).size()));
      return same(computed.real(), rounded) || std::abs(computed.real() - wanted) <= bound
                 ? ::testing::AssertionSuccess()
                 : ::testing::AssertionFailure()
                       << computed.real() << " is not " << wanted << ", bound " << bound;
    });
    if (how == 1) expect_gaps_untouched(y);
  }
  struct wanted_number {
    long double value = 0;
    long double magnitude = 0;  ///< of the numbers from which it is computed
  };

  struct exponential_sum {
    long double largest = 0;
    long double total = 0;
  };
  static exponential_sum exponentials_of(const row& values) {
    exponential_sum sum{.largest = *std::max_element(values.begin(), values.end())};
    for (const auto v : values) sum.total += std::exp(v - sum.largest);
    return sum;
  }
  static wanted_number softmax_of(const exponential_sum& sum, long double value, bool is_log) {
    const auto difference = value - sum.largest;
    if (is_log) {
      const auto wanted = difference - std::log(sum.total);
      return {wanted, std::abs(difference) + std::log(sum.total) + 1};
    }
    // The rounding of the argument of exp counts as often as its size says.
    const auto wanted = std::exp(difference) / sum.total;
    return {wanted, wanted * (1 + std::abs(difference) / 16)};
  }
  struct moments {
    long double mean = 0;
    long double variance = 0;
  };
  static moments centered_moments(const row& values) { return moments_of(values, true); }
  static moments uncentered_moments(const row& values) { return moments_of(values, false); }
  static moments moments_of(const row& values, bool is_centered) {
    moments m;
    const auto count = static_cast<long double>(values.size());
    if (is_centered) {
      for (const auto v : values) m.mean += v / count;
    }
    for (const auto v : values) m.variance += (v - m.mean) * (v - m.mean) / count;
    return m;
  }
  static wanted_number scaled(const moments& m, long double value, double epsilon,
                              long double scale, long double bias) {
    const auto deviation = std::sqrt(m.variance + static_cast<long double>(epsilon));
    const auto normalized = (value - m.mean) / deviation * scale;
    // Elements that are nearly equal differ by less than the rounding of their mean, and the mean
    // is as far off as it is rounded.
    const auto rounded = (std::abs(value) + std::abs(m.mean)) / deviation * std::abs(scale);
    return {normalized + bias, std::abs(normalized) + std::abs(bias) + std::abs(scale) + rounded};
  }

  static indices without(const extents& index, std::size_t axis) {
    indices rest(index.begin(), index.end());
    rest.erase(rest.begin() + static_cast<std::ptrdiff_t>(axis));
    return rest;
  }
  static extents tail_of(const extents& shape, std::size_t first) {
    extents tail;
    for (auto d = first; d < shape.size(); ++d) tail.push_back(shape[d]);
    return tail;
  }
  std::int64_t axis_name(std::size_t axis, std::size_t rank) {
    const auto a = static_cast<std::int64_t>(axis);
    return coin() ? a : a - static_cast<std::int64_t>(rank);
  }

  /// Elements with random strides, or without gaps.
  elements draw(element_type type, const extents& shape, drawn how = drawn::numbers) {
    return has_gaps_ ? make(type, shape, how) : make_contiguous(type, shape, how);
  }
  void leave_no_gaps() { has_gaps_ = false; }

  void expect_softmax(element_type type, const extents& shape, std::size_t axis) {
    const auto name = axis_name(axis, shape.size());
    const auto row_of = [&](const extents& index) {
      return without(index, axis);
    };
    expect_normalized(softmax{.axis = name}, draw(type, shape, drawn::wide), row_of,
                      exponentials_of,
                      [](const exponential_sum& sum, const extents&, long double value) {
                        return softmax_of(sum, value, false);
                      });
    expect_normalized(log_softmax{.axis = name}, draw(type, shape, drawn::wide), row_of,
                      exponentials_of,
                      [](const exponential_sum& sum, const extents&, long double value) {
                        return softmax_of(sum, value, true);
                      });
  }

  void expect_lp_norm(element_type type, const extents& shape, std::size_t axis) {
    for (const std::int64_t p : {1, 2}) {
      expect_normalized(
          lp_norm{.axis = axis_name(axis, shape.size()), .p = p}, draw(type, shape),
          [&](const extents& index) { return without(index, axis); },
          [&](const row& values) {
            long double sum = 0;
            for (const auto v : values) sum += p == 1 ? std::abs(v) : v * v;
            return p == 1 ? sum : std::sqrt(sum);
          },
          [](long double norm, const extents&, long double value) {
            const auto wanted = norm == 0 ? 0 : value / norm;
            return wanted_number{wanted, std::abs(wanted)};
          });
    }
  }

  void expect_layer_norm(element_type type, const extents& shape, std::size_t axis) {
    const auto tail = tail_of(shape, axis);
    const auto row_of = [&](const extents& index) {
      return indices(index.begin(), index.begin() + static_cast<std::ptrdiff_t>(axis));
    };
    const auto epsilon = coin() ? 1e-5 : 0.25;
    const auto scale = draw(type, has_gaps_ ? part_of(tail) : tail);
    const auto bias = draw(type, has_gaps_ ? part_of(tail) : tail);
    const bool has_scale = coin();
    const bool has_bias = coin();
    const auto parameter_at = [&](bool given, const elements& parameter, const extents& index,
                                  long double otherwise) {
      return given ? parameter[tail_of(index, axis)].real() : otherwise;
    };
    layer_norm layer{.axis = axis_name(axis, shape.size()), .epsilon = epsilon};
    rms_norm rms{.axis = layer.axis, .epsilon = epsilon};
    if (has_scale) layer.scale = rms.scale = scale.view();
    if (has_bias) layer.bias = bias.view();
    expect_normalized(layer, draw(type, shape), row_of, centered_moments,
                      [&](const moments& m, const extents& index, long double value) {
                        return scaled(m, value, epsilon, parameter_at(has_scale, scale, index, 1),
                                      parameter_at(has_bias, bias, index, 0));
                      });
    expect_normalized(rms, draw(type, shape), row_of, uncentered_moments,
                      [&](const moments& m, const extents& index, long double value) {
                        return scaled(m, value, epsilon, parameter_at(has_scale, scale, index, 1),
                                      0);
                      });
  }

  void expect_group_norm(element_type type, const extents& shape, std::int64_t groups) {
    const auto size = shape[1] / groups;
    const auto scale = draw(type, {shape[1]});
    const auto bias = draw(type, {shape[1]});
    const bool has_scale = coin();
    const bool has_bias = coin();
    group_norm op{.groups = groups};
    if (has_scale) op.scale = scale.view();
    if (has_bias) op.bias = bias.view();
    expect_normalized(
        op, draw(type, shape),
        [&](const extents& index) {
          return indices{index[0], index[1] / size};
        },
        centered_moments,
        [&](const moments& m, const extents& index, long double value) {
          return scaled(m, value, op.epsilon, has_scale ? scale[{index[1]}].real() : 1,
                        has_bias ? bias[{index[1]}].real() : 0);
        });
  }

  void expect_batch_norm(element_type type, const extents& shape) {
    const auto mean = draw(type, {shape[1]});
    auto variance = draw(type, {shape[1]}, drawn::positive);
    const auto scale = draw(type, {shape[1]});
    const auto bias = draw(type, {shape[1]});
    batch_norm op{.mean = mean.view(), .variance = variance.view()};
    const bool has_scale = coin();
    const bool has_bias = coin();
    if (has_scale) op.scale = scale.view();
    if (has_bias) op.bias = bias.view();
    expect_normalized(
        op, draw(type, shape), [&](const extents& index) { return indices{index[1]}; },
        [](const row&) { return 0; },
        [&](int, const extents& index, long double value) {
          const extents channel{index[1]};
          return scaled({mean[channel].real(), variance[channel].real()}, value, op.epsilon,
                        has_scale ? scale[channel].real() : 1, has_bias ? bias[channel].real() : 0);
        });
  }

 private:
  bool has_gaps_ = true;
};

TEST_P(normalization_operation, axes_of_all_types_and_strides) {
  for (const auto type : real_types) {
    for (int round = 0; round < 15; ++round) {
      const auto shape = random_shape(1);
      SCOPED_TRACE(std::string(to_string(type)) + " " + to_string(shape));
      const auto axis =
          static_cast<std::size_t>(between(0, static_cast<std::int64_t>(shape.size()) - 1));
      expect_softmax(type, shape, axis);
      expect_lp_norm(type, shape, axis);
    }
  }
}

TEST_P(normalization_operation, layers_of_all_types_axes_and_strides) {
  for (const auto type : real_types) {
    for (int round = 0; round < 15; ++round) {
      const auto shape = random_shape(1);
      SCOPED_TRACE(std::string(to_string(type)) + " " + to_string(shape));
      expect_layer_norm(
          type, shape,
          static_cast<std::size_t>(between(0, static_cast<std::int64_t>(shape.size()) - 1)));
    }
  }
}

TEST_P(normalization_operation, groups_and_batches_of_all_types_and_strides) {
  for (const auto type : real_types) {
    for (int round = 0; round < 15; ++round) {
      auto shape = random_shape(2, 6);
      const auto groups = between(1, 4);
      shape[1] *= groups;
      SCOPED_TRACE(std::string(to_string(type)) + " " + to_string(shape));
      expect_group_norm(type, shape, groups);
      if (shape[1] > 0) expect_group_norm(type, shape, shape[1]);
      expect_batch_norm(type, shape);
    }
  }
}

TEST_P(normalization_operation, long_rows) {
  leave_no_gaps();
  // Rows of one warp, of several, of a whole block, and beyond what registers keep.
  for (const std::int64_t count : {8, 24, 1000, 1001, 4096, 32'768, 40'000, 131'072}) {
    const std::int64_t rows = count > 10'000 ? 2 : between(3, 9);
    SCOPED_TRACE(std::to_string(rows) + " rows of " + std::to_string(count));
    for (const auto type : real_types) {
      if (count > 10'000 && between(0, 3) != 0) continue;
      expect_softmax(type, {rows, count}, 1);
      expect_layer_norm(type, {rows, count}, 1);
      expect_lp_norm(type, {rows, count}, 1);
    }
  }
  // Columns: neighbouring elements belong to different rows.
  for (const auto type : real_types) expect_softmax(type, {3, 700, 40}, 1);
  // Whole vectors with one parameter, and vectors across two parameters.
  for (const std::int64_t width : {6, 8, 16}) {
    for (const auto type : real_types) {
      expect_group_norm(type, {2, 12, width, 4}, 3);
      expect_group_norm(type, {2, 12, width, 4}, 12);
      expect_batch_norm(type, {2, 12, width, 4});
    }
  }
}

// Layer norms with few or many rows, of few elements and of more than one warp of a GPU keeps.
TEST_P(normalization_operation, layers_of_few_and_many_rows) {
  leave_no_gaps();
  const auto expect_layers = [&](element_type type, std::int64_t rows, std::int64_t count) {
    if (HasFailure()) return;
    SCOPED_TRACE(std::string(to_string(type)) + ", " + std::to_string(rows) + " rows of " +
                 std::to_string(count));
    expect_layer_norm(type, {rows, count}, 1);
  };
  const auto one_of = [&](const std::vector<std::int64_t>& counts) {
    return counts[static_cast<std::size_t>(between(0, std::ssize(counts) - 1))];
  };
  for (const std::int64_t count : {8, 96, 264, 520, 768, 1000, 1024, 1032, 2056, 4096}) {
    for (const auto type : real_types) expect_layers(type, between(1, 7), count);
    if (count <= 1032)
      expect_layers(real_types[static_cast<std::size_t>(between(0, 2))], 128, count);
  }
  const auto half = coin() ? element_type::f16 : element_type::bf16;
  expect_layers(half, 1025, one_of({768, 1000, 1024}));
  expect_layers(half, 1025, one_of({8, 96, 1032}));
  expect_layers(element_type::f32, 1025, one_of({8, 400, 512, 516}));
}

TEST_P(normalization_operation, numbers_far_from_0) {
  // The mean is rounded; the differences from it must not be.
  for (const std::int64_t count : {40, 384, 512, 516, 2048, 4096}) {
    SCOPED_TRACE(count);
    std::vector<float> values(static_cast<std::size_t>(count));
    for (auto& v : values) v = 10'000.0F + static_cast<float>(between(0, 3)) * 0x1p-10F;
    auto x = make_contiguous(element_type::f32, {count});
    x.set(values);
    row all(values.begin(), values.end());
    const auto m = moments_of(all, true);
    expect_each(run(test_executor(), layer_norm{.x = x.view(), .epsilon = 0}),
                [&](const extents& index, const number& computed) {
                  const auto wanted = scaled(m, x[index].real(), 0, 1, 0).value;
                  return std::abs(computed.real() - wanted) < 1e-5L;
                });
  }
}

TEST_P(normalization_operation, special_values) {
  constexpr float nan = std::numeric_limits<float>::quiet_NaN();
  constexpr float infinite = std::numeric_limits<float>::infinity();
  for (const std::int64_t count : {4, 5, 512, 600, 2048, 40'000}) {
    SCOPED_TRACE(count);
    const auto kinds_of_results = [&](float special, auto op) {
      auto x = make_contiguous(element_type::f32, {count});
      std::vector<float> values(static_cast<std::size_t>(count), 1.0F);
      values[static_cast<std::size_t>(between(1, count - 1))] = special;
      x.set(values);
      op.x = x.view();
      std::map<std::string, std::int64_t> found;
      expect_each(run(test_executor(), op), [&](const extents&, const number& y) {
        ++found[std::isnan(y.real())            ? "nan"
                : y.real() == -infinite         ? "-inf"
                : y.real() == 0                 ? "0"
                : std::abs(y.real()) < infinite ? "finite"
                                                : "inf"];
        return true;
      });
      return found;
    };
    using counts = std::map<std::string, std::int64_t>;
    EXPECT_EQ(kinds_of_results(nan, softmax{}), (counts{{"nan", count}}));
    EXPECT_EQ(kinds_of_results(infinite, softmax{}), (counts{{"nan", count}}));
    EXPECT_EQ(kinds_of_results(-infinite, softmax{}), (counts{{"0", 1}, {"finite", count - 1}}));
    EXPECT_EQ(kinds_of_results(-infinite, log_softmax{}),
              (counts{{"-inf", 1}, {"finite", count - 1}}));
    EXPECT_EQ(kinds_of_results(nan, log_softmax{}), (counts{{"nan", count}}));
    EXPECT_EQ(kinds_of_results(nan, layer_norm{}), (counts{{"nan", count}}));
    EXPECT_EQ(kinds_of_results(infinite, layer_norm{}), (counts{{"nan", count}}));
    EXPECT_EQ(kinds_of_results(infinite, rms_norm{}), (counts{{"nan", 1}, {"0", count - 1}}));
    EXPECT_EQ(kinds_of_results(nan, lp_norm{}), (counts{{"nan", count}}));
    EXPECT_EQ(kinds_of_results(infinite, lp_norm{.p = 1}), (counts{{"nan", 1}, {"0", count - 1}}));
    auto all = make_contiguous(element_type::f32, {count});
    all.set(std::vector<float>{0});
    for (const std::int64_t p : {1, 2}) {
      expect_elements(run(test_executor(), lp_norm{.x = all.view(), .p = p}),
                      [](const extents&) { return number(0); });
    }
    all.set(std::vector<float>{-infinite});
    expect_each(run(test_executor(), softmax{.x = all.view()}),
                [](const extents&, const number& y) { return std::isnan(y.real()); });
    // Numbers that exp would take to infinity and to 0.
    all.set(std::vector<float>{1e30F, -1e30F});
    expect_each(run(test_executor(), log_softmax{.x = all.view()}),
                [](const extents& index, const number& y) {
                  return index[0] % 2 == 0 ? y.real() <= 0 && y.real() > -20 : y.real() < -1e30L;
                });
  }
}

/// Rows of which a part is masked, and rows of large numbers.
TEST_P(normalization_operation, masked_and_large_rows) {
  constexpr float infinite = std::numeric_limits<float>::infinity();
  for (const auto type : {element_type::f16, element_type::bf16, element_type::f32}) {
    for (const std::int64_t count : {2048, 8192}) {
      SCOPED_TRACE(std::string(to_string(type)) + " " + std::to_string(count));
      std::vector<float> masked(static_cast<std::size_t>(count), -infinite);
      std::fill_n(masked.begin(), 128, -100.0F);
      std::vector<float> large(static_cast<std::size_t>(count), 0.0F);
      large[0] = 60'000;
      const auto result_of = [&](const std::vector<float>& values, auto op) {
        auto wide = make_contiguous(element_type::f32, {count});
        wide.set(values);
        op.x = run(test_executor(), cast{.x = wide.view(), .type = type});
        return run(test_executor(), op);
      };
      expect_elements(result_of(masked, softmax{}),
                      [](const extents& i) { return number(i[0] < 128 ? 1.0L / 128 : 0.0L); });
      expect_each(result_of(masked, log_softmax{}), [](const extents& i, const number& y) {
        return i[0] < 128 ? std::abs(y.real() + std::log(128.0L)) < 0.02L : std::isinf(y.real());
      });
      expect_each(result_of(large, log_softmax{}), [](const extents& i, const number& y) {
        return i[0] == 0 ? y.real() == 0 : y.real() < -59'000;
      });
    }
  }
}

// Large results of the host device are stored past the caches. The first elements of each row are
// far from its mean.
TEST_P(normalization_operation, large_results) {
  const std::int64_t count = 2048 + 37;
  const extents shape{1100, count};
  auto x = make_contiguous(element_type::f32, shape);
  std::vector<float> values(static_cast<std::size_t>(count));
  for (std::size_t i = 0; i < values.size(); ++i) {
    values[i] = i < 100 ? 500.0F : static_cast<float>(i % 7) - 3;
  }
  x.set(values);
  long double mean = 0;
  for (const float value : values) mean += value;
  mean /= static_cast<long double>(count);
  long double variance = 0;
  for (const float value : values) variance += (value - mean) * (value - mean);
  variance /= static_cast<long double>(count);
  expect_each(run(test_executor(), layer_norm{.x = x.view(), .epsilon = 0.25}),
              [&](const extents& i, const number& y) {
                const auto x_i = static_cast<long double>(values[static_cast<std::size_t>(i[1])]);
                return std::abs(y.real() - (x_i - mean) / std::sqrt(variance + 0.25L)) < 1e-5L;
              });
}

// The reciprocal of such a norm is infinite.
TEST_P(normalization_operation, rows_of_the_smallest_numbers_become_zeros) {
  for (const std::int64_t p : {1, 2}) {
    for (const std::int64_t count : {4, 7, 64}) {
      auto x = make_contiguous(element_type::f32, {1, count});
      x.set(std::vector<float>{1e-40F, 0, 0, 0});
      auto y = run(test_executor(), lp_norm{.x = x.view().slice(1, 0, 4), .p = p});
      expect_elements(y, [](const extents&) { return number(0); });
    }
  }
}

TEST_P(normalization_operation, of_no_elements) {
  constexpr std::int64_t many = std::int64_t{1} << 40U;
  const auto x = make_contiguous(element_type::f32, {0}).view();
  for (const auto& shape : {extents{many, many, 0}, extents{0, many, many}}) {
    const auto view = tensor(x.block(), element_type::f32, shape);
    EXPECT_EQ(run(test_executor(), softmax{.x = view, .axis = 0}).shape(), shape);
    EXPECT_EQ(run(test_executor(), layer_norm{.x = view, .axis = 1}).shape(), shape);
    EXPECT_EQ(run(test_executor(), group_norm{.x = view}).shape(), shape);
  }
}

TEST_P(normalization_operation, refusals) {
  const auto refuse = [&](const std::string& text, auto op) {
    EXPECT_TRUE(throws(errc::invalid_argument, text, [&] { (void)run(test_executor(), op); }));
  };
  const auto x = make(element_type::f32, {2, 6, 4}).view();
  const auto number_x = make(element_type::f32, {2}).view().select(0, 0);
  const auto three = make(element_type::f32, {3}).view();
  const auto half = make(element_type::f16, {6}).view();
  const auto six = make(element_type::f32, {6}).view();
  refuse("x: is not given", softmax{});
  refuse("x: is of type i32", softmax{.x = make(element_type::i32, {3}).view()});
  refuse("x: has the shape []", softmax{.x = number_x});
  refuse("axis: 3 is not", softmax{.x = x, .axis = 3});
  refuse("axis: -4 is not", log_softmax{.x = x, .axis = -4});
  refuse("y: ", softmax{.x = x, .y = make(element_type::f16, {2, 6, 4}).view()});
  refuse("y: ", layer_norm{.x = x, .y = six});
  refuse("scale: has the shape [3]", layer_norm{.x = x, .scale = three});
  refuse("bias: is of type f16", layer_norm{.x = x, .bias = half, .axis = 1});
  refuse("p: is 3", lp_norm{.x = x, .p = 3});
  refuse("axis: 3 is not", lp_norm{.x = x, .axis = 3});
  refuse("epsilon: is -1", layer_norm{.x = x, .epsilon = -1});
  refuse("epsilon: is nan", rms_norm{.x = x, .epsilon = std::nan("")});
  refuse("epsilon: is inf", group_norm{.x = x, .epsilon = HUGE_VAL});
  refuse("epsilon: is 1e+40", layer_norm{.x = x, .epsilon = 1e40});
  refuse("epsilon: is -1e-09", layer_norm{.x = x, .epsilon = -1e-9});
  refuse("groups: is 4", group_norm{.x = x, .groups = 4});
  refuse("groups: is 0", group_norm{.x = x, .groups = 0});
  refuse("x: has the shape [3]", group_norm{.x = three});
  refuse("scale: has the shape [3]", group_norm{.x = x, .scale = three});
  refuse("mean: is not given", batch_norm{.x = x});
  refuse("variance: is not given", batch_norm{.x = x, .mean = six});
  refuse("variance: has the shape [3]", batch_norm{.x = x, .mean = six, .variance = three});
  refuse("mean: is of type f16", batch_norm{.x = x, .mean = half, .variance = six});
}

INSTANTIATE_TEST_SUITE_P(devices, normalization_operation, every_device(), parameter_name);

}  // namespace
}  // namespace sluice::test
