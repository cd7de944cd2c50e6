// SPDX-License-Identifier: Apache-2.0
#include "operations/overlaps.hpp"

#include "tests/support/devices.hpp"
#include "tests/support/seed.hpp"

#include <sluice/runtime/device_runtime.hpp>
#include <sluice/runtime/host_device.hpp>

#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <numeric>
#include <random>
#include <set>
#include <utility>
#include <vector>

namespace sluice::test {
namespace {

using operations::for_each_overlap;
using operations::touched_tensor;
using pairs = std::set<std::pair<std::size_t, std::size_t>>;

class overlaps_test : public ::testing::Test {
 protected:
  /// A new matrix of bytes.
  tensor matrix(std::int64_t rows, std::int64_t columns) {
    const auto size = static_cast<std::size_t>(rows * columns);
    return tensor(runtime_.allocate<std::uint8_t>(size, stream_, "matrix"))
        .reshape({rows, columns});
  }
  [[nodiscard]] std::mt19937_64& random() { return random_; }
  std::int64_t draw(std::int64_t first, std::int64_t last) {
    return std::uniform_int_distribution<std::int64_t>(first, last)(random_);
  }
  /// A view of a random part of `whole`.
  tensor part_of(tensor whole) {
    for (std::size_t axis = 0; axis < whole.rank(); ++axis) {
      const auto extent = whole.shape()[axis];
      const auto first = draw(0, extent - 1);
      whole = whole.slice(axis, first, draw(first, extent), draw(1, 3));
    }
    return draw(0, 3) == 0 ? whole.transposed() : whole;
  }
  /// Expects that no two of these tensors, in any order, share a byte.
  void expect_apart(const std::vector<tensor>& written, const std::vector<tensor>& read) {
    std::vector<touched_tensor> all;
    for (const auto& one : written) all.push_back({&one, true});
    for (const auto& one : read) all.push_back({&one, false});
    std::shuffle(all.begin(), all.end(), random_);
    const auto ended = for_each_overlap(all, [](std::size_t i, std::size_t j) {
      ADD_FAILURE() << i << " and " << j;
      return false;
    });
    EXPECT_FALSE(ended.refused);
    EXPECT_LE(ended.comparisons, 100 * all.size());
  }

 private:
  device_runtime runtime_{open_host_device()};
  stream stream_ = runtime_.create_stream();
  std::mt19937_64 random_ = make_generator();
};

TEST_F(overlaps_test, are_those_that_a_comparison_of_all_pairs_finds) {
  for (int round = 0; round < 300; ++round) {
    const auto whole = matrix(draw(1, 40), draw(1, 40)).reshape({-1});
    const auto rows = draw(1, 4) == 1 ? 1 : whole.shape()[0] / draw(1, whole.shape()[0]);
    const auto columns = whole.shape()[0] / rows;
    const auto block = whole.slice(0, 0, rows * columns).reshape({rows, columns});
    std::vector<tensor> values;
    const auto count = draw(1, 80);
    for (std::int64_t i = 0; i < count; ++i) values.push_back(part_of(block));
    values.emplace_back();
    std::vector<touched_tensor> all;
    for (const auto& one : values) all.push_back({&one, draw(0, 3) == 0});
    pairs expected;
    for (std::size_t i = 0; i < all.size(); ++i) {
      for (std::size_t j = 0; j < all.size(); ++j) {
        if (i == j || !all[i].is_written || (all[j].is_written && j < i)) continue;
        if (values[i] && values[j] && overlap(values[i], values[j])) expected.emplace(i, j);
      }
    }
    pairs found;
    const auto ended = for_each_overlap(all, [&](std::size_t i, std::size_t j) {
      found.emplace(i, j);
      return true;
    });
    ASSERT_FALSE(ended.refused);
    ASSERT_EQ(found, expected) << "round " << round;
  }
}

TEST_F(overlaps_test, are_found_among_many_columns) {
  const auto whole = matrix(5, 2000);
  std::vector<tensor> values;
  for (std::int64_t i = 0; i + 1 < 2000; ++i) values.push_back(whole.slice(1, i, i + 1));
  values.push_back(whole.slice(1, 1000, 1001).slice(0, 2, 3));
  std::vector<touched_tensor> all;
  for (const auto& one : values) all.push_back({&one, true});
  pairs found;
  const auto ended = for_each_overlap(all, [&](std::size_t i, std::size_t j) {
    found.emplace(i, j);
    return true;
  });
  EXPECT_FALSE(ended.refused);
  EXPECT_EQ(found, (pairs{{1000, 1999}}));
}

TEST_F(overlaps_test, need_not_be_found_with_everything_that_is_read) {
  const auto whole = matrix(1, 1);
  const std::vector<tensor> values(1000, whole);
  std::vector<touched_tensor> all;
  for (const auto& one : values) all.push_back({&one, &one == &values[7]});
  int visits = 0;
  const auto ended = for_each_overlap(all, [&](std::size_t i, std::size_t) {
    EXPECT_EQ(i, 7U);
    ++visits;
    return false;
  });
  EXPECT_FALSE(ended.refused);
  EXPECT_EQ(visits, 1);
}

// Tensor i is the bytes i and 2n - i, so all begin within each other and none has a stride of
// another one.
TEST_F(overlaps_test, of_too_many_that_interleave_are_refused) {
  const std::int64_t count = 4000;
  const auto whole = matrix(1, 2 * count + 1).reshape({-1});
  std::vector<tensor> values;
  for (std::int64_t i = 0; i < count; ++i) {
    values.push_back(whole.slice(0, i, 2 * count - i + 1, 2 * (count - i)));
  }
  std::vector<touched_tensor> all;
  for (const auto& one : values) all.push_back({&one, true});
  EXPECT_TRUE(for_each_overlap(all, [](std::size_t, std::size_t) { return true; }).refused);
}

TEST_F(overlaps_test, take_a_bounded_number_of_comparisons_for_each_tensor) {
  constexpr std::int64_t count = 5'000;
  const auto columns = matrix(3, count);
  const auto rows = matrix(count, 3);
  const auto images = matrix(4, 4 * count).reshape({4, 4, count});
  std::vector<tensor> written;
  for (std::int64_t i = 0; i < count; ++i) {
    written.push_back(columns.slice(1, i, i + 1));
    written.push_back(rows.slice(0, i, i + 1));
    written.push_back(images.select(2, i));
  }
  expect_apart(written, {});
  // One tensor that many read, next to one that is written.
  const auto pair = matrix(2, 64);
  expect_apart({pair.slice(0, 1, 2)}, std::vector<tensor>(count, pair.slice(0, 0, 1)));
  // One that is read lies between the columns.
  expect_apart({written.begin() + 3, written.end()}, {written[0], written[1], written[2]});
}

}  // namespace
}  // namespace sluice::test
