// SPDX-License-Identifier: Apache-2.0
#include "tests/operations/elementwise/elements.hpp"
#include "tests/support/expect_error.hpp"

#include <sluice/operations/program.hpp>
#include <sluice/operations/reduce.hpp>
#include <sluice/operations/sort.hpp>

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <limits>
#include <numeric>
#include <string>
#include <vector>

namespace sluice::test {
namespace {

/// Whether `a` comes before `b`: NaN is the largest.
bool precedes(const number& a, const number& b, bool descending) {
  const auto less = [](long double x, long double y) {
    return std::isnan(y) ? !std::isnan(x) : x < y;
  };
  return descending ? less(b.real(), a.real()) : less(a.real(), b.real());
}

class sorts : public elementwise_test {
 protected:
  /// Expects that `results` has the first elements of each row of `x` in order.
  void expect_sorted(const elements& x, std::size_t axis, bool descending, const tensors& results) {
    ASSERT_EQ(results.size(), 2U);
    const auto& values = results[0];
    const auto& indices = results[1];
    ASSERT_EQ(values.type(), x.type());
    ASSERT_EQ(indices.type(), element_type::i64);
    ASSERT_EQ(values.shape(), indices.shape());
    const auto value_bytes = contents_of(values);
    const auto index_bytes = contents_of(indices);
    auto rows = values.shape();
    const auto kept = rows[axis];
    rows[axis] = 1;
    const auto length = x.view().shape()[axis];
    for_each_index(rows, [&](const extents& row) {
      if (HasFailure()) return;
      std::vector<number> numbers;
      auto index = row;
      for (std::int64_t i = 0; i < length; ++i) {
        index[axis] = i;
        numbers.push_back(x[index]);
      }
      std::vector<std::int64_t> order(numbers.size());
      std::iota(order.begin(), order.end(), 0);
      std::stable_sort(order.begin(), order.end(), [&](std::int64_t a, std::int64_t b) {
        return precedes(numbers[static_cast<std::size_t>(a)], numbers[static_cast<std::size_t>(b)],
                        descending);
      });
      for (std::int64_t i = 0; i < kept; ++i) {
        index[axis] = i;
        std::int64_t found = 0;
        std::memcpy(&found, &index_bytes[position(indices, index)], sizeof found);
        ASSERT_EQ(found, order[static_cast<std::size_t>(i)])
            << to_string(x.type()) << ' ' << to_string(index) << " of "
            << to_string(x.view().shape()) << (descending ? ", descending" : "");
        index[axis] = found;
        ASSERT_EQ(std::memcmp(&value_bytes[position(values, row_index(row, axis, i))],
                              &x.memory()[x.position(index)], size_of(x.type())),
                  0);
      }
    });
  }
  void check(const elements& x, std::int64_t axis, bool descending) {
    const auto& shape = x.view().shape();
    const auto dimension =
        static_cast<std::size_t>(axis < 0 ? axis + static_cast<std::int64_t>(shape.size()) : axis);
    sort request{.x = x.view(), .axis = axis, .descending = descending};
    if (coin()) {
      const auto values = make(x.type(), shape);
      const auto indices = make(element_type::i64, shape);
      request.values = values.view();
      request.indices = indices.view();
      const auto results = run(test_executor(), request);
      EXPECT_EQ(results, (tensors{values.view(), indices.view()}));
      expect_sorted(x, dimension, descending, results);
      expect_gaps_untouched(values);
      expect_gaps_untouched(indices);
    } else {
      const auto results = run(test_executor(), request);
      EXPECT_EQ(results[0].shape(), shape);
      expect_sorted(x, dimension, descending, results);
    }
  }
  void check_top(const elements& x, std::int64_t k, std::int64_t axis, bool largest) {
    const auto dimension = static_cast<std::size_t>(
        axis < 0 ? axis + static_cast<std::int64_t>(x.view().rank()) : axis);
    const auto results =
        run(test_executor(), top_k{.x = x.view(), .k = k, .axis = axis, .largest = largest});
    EXPECT_EQ(results[0].shape()[dimension], k);
    expect_sorted(x, dimension, largest, results);
  }

 private:
  static extents row_index(extents row, std::size_t axis, std::int64_t i) {
    row[axis] = i;
    return row;
  }
  static std::size_t position(const tensor& t, const extents& index) {
    auto elements = static_cast<std::int64_t>(0);
    for (std::size_t d = 0; d < index.size(); ++d) elements += index[d] * t.strides()[d];
    return t.offset() + static_cast<std::size_t>(elements) * size_of(t.type());
  }
};

bool is_ordered(element_type type) {
  return type != element_type::c64 && type != element_type::c128;
}

TEST_P(sorts, order_every_type_along_every_axis) {
  for (const auto type : computed_element_types) {
    if (!is_ordered(type)) continue;
    SCOPED_TRACE(to_string(type));
    for (const auto how : {drawn::numbers, drawn::bits}) {
      for (int round = 0; round < 3; ++round) {
        const auto shape = random_shape(1, 4);
        const auto rank = static_cast<std::int64_t>(shape.size());
        check(make(type, shape, how), between(-rank, rank - 1), coin());
      }
    }
  }
}

// A tile of a GPU has 2048 items; the rows of a tile have 8, 16, … of them.
TEST_P(sorts, take_rows_of_every_length) {
  for (const auto type : {element_type::f32, element_type::i64}) {
    for (const std::int64_t length :
         {0, 1, 2, 7, 8, 9, 31, 100, 256, 1000, 2047, 2048, 2049, 4096, 4097, 10000}) {
      SCOPED_TRACE(length);
      check(make(type, {between(1, 5), length}, coin() ? drawn::bits : drawn::numbers), -1, coin());
    }
    check(make(type, {70001}), 0, coin());
    check(make(type, {3000, 5}), 0, coin());
  }
}

TEST_P(sorts, keep_the_order_of_equal_elements) {
  auto x = make(element_type::f32, {3, 5000});
  x.set(std::vector<float>{0.0F, -0.0F, 1.0F, std::numeric_limits<float>::quiet_NaN(), 1.0F, -1.0F,
                           -std::numeric_limits<float>::quiet_NaN(),
                           std::numeric_limits<float>::infinity(),
                           -std::numeric_limits<float>::infinity()});
  for (const bool descending : {false, true}) check(x, 1, descending);
  auto same = make(element_type::u8, {9000});
  same.set(std::vector<std::uint8_t>{7});
  for (const bool descending : {false, true}) check(same, 0, descending);
}

TEST_P(sorts, may_keep_the_first_elements) {
  for (const auto type : {element_type::bf16, element_type::u64}) {
    for (const std::int64_t length : {1, 10, 2048, 2049, 5000, 40000}) {
      const auto x = make(type, {between(1, 3), length}, drawn::bits);
      for (const std::int64_t k : {1, 5, 1000, 1024, 1025, 3000}) {
        if (k > length) continue;
        SCOPED_TRACE(std::to_string(k) + " of " + std::to_string(length));
        check_top(x, k, -1, coin());
      }
    }
    check_top(make(type, {200, 7}), 3, 0, coin());
    check_top(make(type, {4, 7}), 0, 1, coin());
  }
}

// The host keeps the first ones of blocks of 65536 elements.
TEST_P(sorts, keep_the_first_elements_of_long_rows) {
  for (const std::int64_t k : {1, 700, 40000}) {
    check_top(make(element_type::i16, {2, 200003}, drawn::bits), k, -1, coin());
  }
}

TEST_P(sorts, take_repeated_elements) {
  const auto x = make(element_type::i32, {1, 50});
  const auto results =
      run(test_executor(), sort{.x = x.view().broadcast_to({4, 50}), .descending = true});
  EXPECT_EQ(results[0].shape(), (extents{4, 50}));
  expect_sorted(x, 1, true, {results[0].slice(0, 3, 4), results[1].slice(0, 3, 4)});
}

TEST_P(sorts, are_steps_with_two_results) {
  program_builder p;
  const auto scores = p.input("scores");
  const auto best = p.add("best", top_k{.x = scores, .k = 3});
  const auto sum = p.add("sum", reduce{.x = best[0], .axes = {-1}});
  const program choice =
      std::move(p).build({sum, best[1]}, {.capture = capture_policy::at_prepare});
  const auto x = make_contiguous(element_type::f32, {5, 30});
  const auto alone = run(test_executor(), top_k{.x = x.view(), .k = 3});
  for (int runs = 0; runs < 3; ++runs) {
    const auto results = run(test_executor(), sluice::run{choice, {x.view()}});
    EXPECT_EQ(contents_of(results[1]), contents_of(alone[1]));
    const auto expected = run(test_executor(), reduce{.x = alone[0], .axes = {-1}});
    EXPECT_EQ(contents_of(results[0]), contents_of(expected));
  }
}

TEST_P(sorts, refuse_what_has_no_order) {
  const auto refuse = [&](const std::string& text, auto operation) {
    EXPECT_TRUE(throws(errc::invalid_argument, text,
                       [&] { (void)run(test_executor(), std::move(operation)); }));
  };
  const auto x = make(element_type::f32, {3, 4}).view();
  refuse("x: is not given", sort{});
  refuse("x: is of type c64", sort{.x = make(element_type::c64, {3}).view()});
  refuse("x: has no dimension", sort{.x = make(element_type::f32, {}).view()});
  refuse("axis: 2 is not one of", sort{.x = x, .axis = 2});
  refuse("values: is of type i32", sort{.x = x, .values = make(element_type::i32, {3, 4}).view()});
  refuse("indices: is of type i32",
         sort{.x = x, .indices = make(element_type::i32, {3, 4}).view()});
  refuse("values: shares memory with x", sort{.x = x, .values = x});
  refuse("k: is not given", top_k{.x = x});
  refuse("k: is 5, but x has 4", top_k{.x = x, .k = 5});
  refuse("k: is -1", top_k{.x = x, .k = -1});
  refuse("values: has the shape", top_k{.x = x, .k = 2, .values = x});
  // Work without bound: 2^60 elements that are one.
  EXPECT_TRUE(throws(errc::unsupported, "top_k: takes", [&] {
    const auto one = make(element_type::f32, {1}).view();
    (void)run(test_executor(), top_k{.x = one.broadcast_to({std::int64_t{1} << 60U}), .k = 1});
  }));
}

INSTANTIATE_TEST_SUITE_P(devices, sorts, every_device(), parameter_name);

}  // namespace
}  // namespace sluice::test
