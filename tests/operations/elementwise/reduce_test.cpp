// SPDX-License-Identifier: Apache-2.0
#include "tests/operations/elementwise/elements.hpp"

#include <sluice/operations/elementwise.hpp>
#include <sluice/operations/reduce.hpp>

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <map>
#include <vector>

namespace sluice::test {
namespace {

/// The elements of a result, in row-major order, and the number that it must be.
struct expectation {
  std::vector<number> elements;
  number value = 0;
  long double magnitude = 0;  ///< of the numbers whose rounding counts
};

[[nodiscard]] bool is_exact(reduction kind) {
  switch (kind) {
    case reduction::max:
    case reduction::min:
    case reduction::any:
    case reduction::all:
    case reduction::argmax:
    case reduction::argmin:
      return true;
    default:
      return false;
  }
}

class reduce_operation : public elementwise_test {
 protected:
  static element_type result_type(reduction kind, element_type type) {
    switch (kind) {
      case reduction::argmax:
      case reduction::argmin:
        return element_type::i64;
      case reduction::any:
      case reduction::all:
        return element_type::boolean;
      case reduction::max:
      case reduction::min:
        return type;
      default:
        break;
    }
    if (type >= element_type::f16) return type;
    switch (kind) {
      case reduction::mean:
      case reduction::l2:
      case reduction::log_sum:
      case reduction::log_sum_exp:
      case reduction::variance:
        return element_type::f64;
      default:
        break;
    }
    switch (type) {
      case element_type::u8:
      case element_type::u16:
      case element_type::u32:
      case element_type::u64:
        return element_type::u64;
      default:
        return element_type::i64;
    }
  }

  /// Works out the value of a reduction from its elements.
  static void reduce_elements(const reduce& op, expectation& e) {
    const auto count = static_cast<long double>(e.elements.size());
    number total = 0;
    long double magnitudes = 0;
    long double squares = 0;
    std::size_t best = 0;
    std::size_t worst = 0;
    long double zeros = 0;
    number factors = 1;
    for (std::size_t i = 0; i < e.elements.size(); ++i) {
      const auto v = e.elements[i];
      total += v;
      magnitudes += std::abs(v);
      squares += std::norm(v);
      factors *= v;
      if (v == number(0)) ++zeros;
      const auto is_last = [&](std::size_t other) {
        return op.last && v.real() == e.elements[other].real();
      };
      if (v.real() > e.elements[best].real() || is_last(best)) best = i;
      if (v.real() < e.elements[worst].real() || is_last(worst)) worst = i;
    }
    e.magnitude = magnitudes;
    switch (op.kind) {
      case reduction::sum:
        e.value = total;
        return;
      case reduction::mean:
        e.value = total / count;
        e.magnitude = magnitudes / count;
        return;
      case reduction::max:
        e.value = e.elements[best].real();
        return;
      case reduction::min:
        e.value = e.elements[worst].real();
        return;
      case reduction::product:
        e.value = factors;
        e.magnitude = std::abs(factors);
        return;
      case reduction::any:
        e.value = zeros < count ? 1 : 0;
        return;
      case reduction::all:
        e.value = zeros == 0 ? 1 : 0;
        return;
      case reduction::l1:
        e.value = magnitudes;
        return;
      case reduction::l2:
        e.value = std::sqrt(squares);
        e.magnitude = std::sqrt(squares);
        return;
      case reduction::sum_of_squares:
        e.value = squares;
        e.magnitude = squares;
        return;
      case reduction::log_sum:
        // Rounding the sum moves the logarithm by as much as the sum is smaller than its terms.
        e.value = std::log(total.real());
        e.magnitude = std::abs(e.value) + magnitudes / std::abs(total.real());
        return;
      case reduction::log_sum_exp: {
        e.value = -std::numeric_limits<long double>::infinity();
        if (e.elements.empty()) return;
        long double exponentials = 0;
        for (const auto& v : e.elements)
          exponentials += std::exp(v.real() - e.elements[best].real());
        e.value = e.elements[best].real() + std::log(exponentials);
        e.magnitude = std::abs(e.elements[best].real()) + std::log(exponentials) + 1;
        return;
      }
      case reduction::variance: {
        const auto mean = total.real() / count;
        long double deviations = 0;
        for (const auto& v : e.elements) deviations += (v.real() - mean) * (v.real() - mean);
        e.value = deviations / (count - static_cast<long double>(op.correction));
        e.magnitude = std::abs(e.value) * 8;
        return;
      }
      case reduction::argmax:
        e.value = static_cast<long double>(best);
        return;
      case reduction::argmin:
        e.value = static_cast<long double>(worst);
        return;
    }
  }

  void expect_right(const elements& x, reduction kind, const std::optional<extents>& axes,
                    bool keep_dims) {
    const auto shape = x.view().shape();
    std::vector<bool> reduced(shape.size(), !axes);
    if (axes) {
      for (const auto a : *axes) {
        reduced[static_cast<std::size_t>(a < 0 ? a + static_cast<std::int64_t>(shape.size()) : a)] =
            true;
      }
    }
    const auto kept_index = [&](const extents& index) {
      std::vector<std::int64_t> kept;
      for (std::size_t d = 0; d < shape.size(); ++d) {
        if (!reduced[d]) kept.push_back(index[d]);
        if (reduced[d] && keep_dims) kept.push_back(0);
      }
      return kept;
    };
    reduce op{.x = x.view(), .kind = kind, .axes = axes, .keep_dims = keep_dims};
    const bool finds_position = kind == reduction::argmax || kind == reduction::argmin;
    if (finds_position) op.last = coin();
    if (kind == reduction::variance) op.correction = between(0, 1);
    std::map<std::vector<std::int64_t>, expectation> expected;
    for_each_index(shape, [&](const extents& index) {
      expected[kept_index(index)].elements.push_back(x[index]);
    });
    for (auto& [index, e] : expected) reduce_elements(op, e);

    const auto type = result_type(kind, x.type());
    extents y_shape;
    for (std::size_t d = 0; d < shape.size(); ++d) {
      if (!reduced[d]) y_shape.push_back(shape[d]);
      if (reduced[d] && keep_dims) y_shape.push_back(1);
    }
    const bool has_output = coin();
    const auto y = make(type, y_shape);
    if (has_output) op.y = y.view();
    const auto result = run(test_executor(), op);
    EXPECT_EQ(result.shape(), y_shape);
    EXPECT_EQ(result.type(), type);
    expect_each(result, [&](const extents& index, const number& computed) {
      auto& e = expected[{index.begin(), index.end()}];
      // A reduction of no elements.
      if (e.elements.empty()) reduce_elements(op, e);
      number wanted = e.value;
      long double bound = 0;
      if (!is_exact(kind) && type >= element_type::f16) {
        const bool wide = type == element_type::f64 || type == element_type::c128;
        bound = e.magnitude * static_cast<long double>(e.elements.size() + 8) * 0x1p-52L;
        if (!wide) {
          wanted = {to_real_type(type, wanted.real()), to_real_type(type, wanted.imag())};
          const long double last = type == element_type::f16    ? 0x1p-10L
                                   : type == element_type::bf16 ? 0x1p-7L
                                                                : 0x1p-23L;
          bound = std::max(bound * 4, std::abs(wanted) * last * 1e-3L);
          // A sum beside the middle of two neighbours may fall to the other one.
          if (bound > 0) bound += std::abs(wanted) * last;
        }
        // Products of many small numbers are no normal numbers any more.
        bound += type == element_type::f16 ? 0x1p-24L : wide ? 0x1p-1074L : 0x1p-133L;
      }
      return same(computed, wanted) || std::abs(computed - wanted) <= bound
                 ? ::testing::AssertionSuccess()
                 : ::testing::AssertionFailure() << computed.real() << " is not " << wanted.real();
    });
    if (has_output) expect_gaps_untouched(y);
  }
  extents random_axes(std::size_t rank) {
    extents axes;
    for (std::size_t d = 0; d < rank; ++d) {
      const auto axis = static_cast<std::int64_t>(d);
      if (coin()) axes.push_back(coin() ? axis : axis - static_cast<std::int64_t>(rank));
    }
    return axes;
  }
};

/// Whether a reduction of no elements has a value.
[[nodiscard]] bool takes_nothing(reduction kind) {
  switch (kind) {
    case reduction::mean:
    case reduction::max:
    case reduction::min:
    case reduction::variance:
    case reduction::argmax:
    case reduction::argmin:
      return false;
    default:
      return true;
  }
}
[[nodiscard]] bool takes(reduction kind, element_type type) {
  return !is_complex_type(type) || kind == reduction::sum || kind == reduction::mean ||
         kind == reduction::product;
}

/// How elements are drawn, so that integers do not wrap around and logarithms are numbers.
[[nodiscard]] drawn numbers_for(reduction kind, element_type type) {
  if (is_floating_type(type)) {
    return kind == reduction::log_sum || kind == reduction::log_sum_exp ? drawn::positive
                                                                        : drawn::numbers;
  }
  switch (kind) {
    case reduction::sum:
    case reduction::mean:
    case reduction::max:
    case reduction::min:
    case reduction::argmax:
    case reduction::argmin:
      return drawn::numbers;
    default:
      return is_complex_type(type) ? drawn::numbers : drawn::few;
  }
}

TEST_P(reduce_operation, of_all_types_axes_and_strides) {
  for (const auto type : computed_element_types) {
    for (int k = 0; k < reduction_count; ++k) {
      const auto kind = static_cast<reduction>(k);
      if (!takes(kind, type)) continue;
      SCOPED_TRACE(std::string(to_string(type)) + " kind " + std::to_string(k));
      for (int round = 0; round < 4; ++round) {
        auto shape = random_shape();
        for (std::size_t d = 0; d < shape.size(); ++d) {
          if (!takes_nothing(kind)) shape[d] = std::max<std::int64_t>(shape[d], 1);
        }
        auto x = make(type, shape, numbers_for(kind, type));
        // Sums of 64 bits are exact in the reference only if they are small, and must not wrap
        // around.
        if (kind == reduction::sum || kind == reduction::mean) {
          if (type == element_type::i64) x.set(std::vector<std::int64_t>{-5, 1LL << 40, 7, -9});
          if (type == element_type::u64) x.set(std::vector<std::uint64_t>{5, 1ULL << 45, 7});
        }
        expect_right(x, kind, coin() ? std::optional(random_axes(shape.size())) : std::nullopt,
                     coin());
      }
    }
  }
}

TEST_P(reduce_operation, of_many_elements) {
  // Long rows, long columns, one result, many results: each is distributed in another way.
  const std::vector<std::pair<extents, std::optional<extents>>> cases{
      {{300'001}, std::nullopt},     {{3, 50'001}, extents{1}},  {{50'001, 3}, extents{0}},
      {{700, 300}, extents{0}},      {{700, 300}, extents{1}},   {{30, 40, 50}, extents{1}},
      {{30, 40, 50}, extents{0, 2}}, {{2, 100'000}, extents{0}}, {{100'000, 2}, extents{1}},
      {{64, 33, 65}, extents{0, 1}}, {{128, 1292}, std::nullopt}};
  for (const auto& [shape, axes] : cases) {
    SCOPED_TRACE(to_string(shape));
    for (const auto type : {element_type::f32, element_type::i32, element_type::c64}) {
      if (type != element_type::f32 && between(0, 2) != 0) continue;
      const auto x = make(type, shape);
      expect_right(x, coin() ? reduction::sum : reduction::mean, axes, coin());
      // Some of the other kinds, on each device and at each start others.
      for (int k = 2; k < reduction_count && type == element_type::f32; ++k) {
        if (between(0, 6) != 0) continue;
        const auto kind = static_cast<reduction>(k);
        SCOPED_TRACE(k);
        if (coin()) {
          expect_right(make(type, shape, numbers_for(kind, type)), kind, axes, coin());
          continue;
        }
        const auto half = coin() ? element_type::f16 : element_type::bf16;
        const bool has_positions = kind == reduction::argmax || kind == reduction::argmin;
        expect_right(
            make_contiguous(half, shape, has_positions ? drawn::few : numbers_for(kind, half)),
            kind, axes, coin());
      }
    }
  }
}

TEST_P(reduce_operation, gives_the_same_bits_each_time) {
  const auto x = make(element_type::f64, {123'457});
  const auto first = contents_of(run(test_executor(), reduce{.x = x.view()}));
  for (int i = 0; i < 5; ++i) {
    EXPECT_TRUE(contents_of(run(test_executor(), reduce{.x = x.view()})) == first);
  }
}

TEST_P(reduce_operation, of_squares_that_overflow) {
  for (const std::vector<double>& values : {std::vector{1e155, -1e155}, std::vector{1e200, 0.0}}) {
    auto x = make_contiguous(element_type::f64, {2});
    x.set(values);
    expect_each(run(test_executor(), reduce{.x = x.view(), .kind = reduction::variance}),
                [&](const extents&, const number& computed) {
                  return computed.real() == std::numeric_limits<long double>::infinity();
                });
  }
}

TEST_P(reduce_operation, of_special_values) {
  constexpr float nan = std::numeric_limits<float>::quiet_NaN();
  constexpr float infinite = std::numeric_limits<float>::infinity();
  const auto reduction_of = [&](const std::vector<float>& values, std::int64_t count,
                                reduction kind) {
    auto x = make_contiguous(element_type::f32, {count});
    x.set(values);
    number result;
    expect_each(run(test_executor(), reduce{.x = x.view(), .kind = kind}),
                [&](const extents&, const number& computed) {
                  result = computed;
                  return true;
                });
    return result.real();
  };
  for (const std::int64_t count : {4, 700, 100'001}) {
    EXPECT_TRUE(std::isnan(reduction_of({1, nan, infinite, 2}, count, reduction::max)));
    EXPECT_TRUE(std::isnan(reduction_of({1, infinite, -infinite, 2}, count, reduction::sum)));
    EXPECT_EQ(reduction_of({1, infinite, -infinite, 2}, count, reduction::max), infinite);
    EXPECT_EQ(reduction_of({-infinite}, count, reduction::max), -infinite);
    EXPECT_TRUE(std::signbit(reduction_of({-0.0F}, count, reduction::max)));
    EXPECT_FALSE(std::signbit(reduction_of({-0.0F, 0.0F}, count, reduction::max)));
    EXPECT_TRUE(std::isnan(reduction_of({1, nan, -infinite, 2}, count, reduction::min)));
    EXPECT_EQ(reduction_of({infinite}, count, reduction::min), infinite);
    EXPECT_TRUE(std::signbit(reduction_of({0.0F, -0.0F}, count, reduction::min)));
    EXPECT_EQ(reduction_of({1, nan, infinite, nan}, count, reduction::argmax), 1);
    EXPECT_EQ(reduction_of({1, nan, -infinite, nan}, count, reduction::argmin), 1);
    EXPECT_EQ(reduction_of({0.0F, -0.0F}, count, reduction::argmin), 0);
    EXPECT_EQ(reduction_of({0.0F, nan}, count, reduction::all), 0);
    EXPECT_EQ(reduction_of({0.0F, nan}, count, reduction::any), 1);
    EXPECT_TRUE(std::isnan(reduction_of({1, nan}, count, reduction::log_sum_exp)));
    EXPECT_EQ(reduction_of({-infinite}, count, reduction::log_sum_exp), -infinite);
    EXPECT_EQ(reduction_of({-infinite, infinite}, count, reduction::log_sum_exp), infinite);
    EXPECT_TRUE(std::isnan(reduction_of({1, infinite}, count, reduction::variance)));
    EXPECT_EQ(reduction_of({3e38F, -3e38F}, count, reduction::variance), infinite);
    // Squares and exponentials that f32 does not hold.
    EXPECT_NEAR(static_cast<double>(reduction_of({1e30F}, count, reduction::l2)) /
                    (1e30 * std::sqrt(static_cast<double>(count))),
                1, 1e-6);
    EXPECT_NEAR(static_cast<double>(reduction_of({1000}, count, reduction::log_sum_exp)),
                1000 + std::log(static_cast<double>(count)), 1e-3);
  }
}

/// Elements that cancel, and one that is far from all others.
TEST_P(reduce_operation, keeps_what_f32_would_lose) {
  for (const auto type : {element_type::bf16, element_type::f32}) {
    auto wide = make_contiguous(element_type::f32, {16});
    wide.set(std::vector<float>{0x1p30F, 1, -0x1p30F, 0, 0, 0, 0, 0});
    const auto x = run(test_executor(), cast{.x = wide.view(), .type = type});
    expect_elements(run(test_executor(), reduce{.x = x}), [](const extents&) { return number(2); });
  }
  constexpr std::int64_t count = 1'000'000;
  auto far = make_contiguous(element_type::f64, {count});
  std::vector<double> values(count, 0.3);
  values[0] = 10'000.1;
  far.set(values);
  const long double mean = 0.3L + 9'999.8L / count;
  const long double variance =
      ((10'000.1L - mean) * (10'000.1L - mean) + (count - 1) * (0.3L - mean) * (0.3L - mean)) /
      count;
  expect_each(run(test_executor(), reduce{.x = far.view(), .kind = reduction::variance}),
              [&](const extents&, const number& y) {
                return std::abs(y.real() - variance) < variance * 1e-10L;
              });
}

TEST_P(reduce_operation, of_nothing_is_0) {
  const auto x = make(element_type::f32, {3, 0, 2});
  expect_elements(run(test_executor(), reduce{.x = x.view(), .axes = extents{1}}),
                  [](const extents&) { return number(0); });
  EXPECT_EQ(run(test_executor(), reduce{.x = x.view(), .kind = reduction::max, .axes = extents{0}})
                .shape(),
            (extents{0, 2}));
}

TEST_P(reduce_operation, wraps_integers_around) {
  auto x = make_contiguous(element_type::u64, {3});
  x.set(std::vector<std::uint64_t>{~0ULL, 2, 5});
  expect_elements(run(test_executor(), reduce{.x = x.view()}),
                  [](const extents&) { return number(6); });
}

INSTANTIATE_TEST_SUITE_P(devices, reduce_operation, every_device(), parameter_name);

}  // namespace
}  // namespace sluice::test
