// SPDX-License-Identifier: Apache-2.0
#include "tests/operations/elementwise/elements.hpp"

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

/// What a reduction of some elements must give, and how far from it the result may be.
struct expectation {
  number value = 0;
  long double magnitude = 0;  // the sum of the magnitudes
  std::int64_t count = 0;
};

class reduce_operation : public elementwise_test {
 protected:
  static element_type result_type(reduction kind, element_type type) {
    if (kind == reduction::max || type >= element_type::f16) return type;
    if (kind == reduction::mean) return element_type::f64;
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
    std::map<std::vector<std::int64_t>, expectation> expected;
    for_each_index(shape, [&](const extents& index) {
      auto& e = expected[kept_index(index)];
      const auto v = x[index];
      if (kind == reduction::max) {
        e.value = e.count == 0 ? v : v.real() > e.value.real() ? v : e.value;
      } else {
        e.value += v;
        e.magnitude += std::abs(v);
      }
      ++e.count;
    });

    reduce op{.x = x.view(), .kind = kind, .axes = axes, .keep_dims = keep_dims};
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
      const auto& e = expected[{index.begin(), index.end()}];
      number wanted = e.value;
      long double bound = 0;
      if (kind != reduction::max && type >= element_type::f16) {
        if (kind == reduction::mean) wanted /= static_cast<long double>(e.count);
        const bool wide = type == element_type::f64 || type == element_type::c128;
        const auto n = kind == reduction::mean ? static_cast<long double>(e.count) : 1;
        bound = e.magnitude / n * static_cast<long double>(e.count + 2) * 0x1p-52L;
        if (!wide) {
          wanted = {to_real_type(type, wanted.real()), to_real_type(type, wanted.imag())};
          const long double last = type == element_type::f16    ? 0x1p-10L
                                   : type == element_type::bf16 ? 0x1p-7L
                                                                : 0x1p-23L;
          bound = std::max(bound * 4, std::abs(wanted) * last * 1e-3L);
          // A sum beside the middle of two neighbours may fall to the other one.
          if (bound > 0) bound += std::abs(wanted) * last;
        }
      }
      return std::abs(computed - wanted) <= bound
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

TEST_P(reduce_operation, of_all_types_axes_and_strides) {
  for (const auto type : all_element_types) {
    for (const auto kind : {reduction::sum, reduction::mean, reduction::max}) {
      if (kind == reduction::max && is_complex_type(type)) continue;
      SCOPED_TRACE(std::string(to_string(type)) + " kind " +
                   std::to_string(static_cast<int>(kind)));
      for (int round = 0; round < 10; ++round) {
        auto shape = random_shape();
        // Mean and maximum of nothing are refused.
        for (std::size_t d = 0; d < shape.size(); ++d) {
          if (kind != reduction::sum) shape[d] = std::max<std::int64_t>(shape[d], 1);
        }
        // Sums of 64 bits are exact in the reference only if they are small, and must not wrap
        // around.
        auto x = make(type, shape);
        if (type == element_type::i64) x.set(std::vector<std::int64_t>{-5, 1LL << 40, 7, -9});
        if (type == element_type::u64) x.set(std::vector<std::uint64_t>{5, 1ULL << 45, 7});
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
      const auto x = make(type, shape);
      expect_right(x, reduction::sum, axes, false);
      expect_right(x, reduction::mean, axes, true);
      if (type != element_type::c64) expect_right(x, reduction::max, axes, false);
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
  }
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
