// SPDX-License-Identifier: Apache-2.0
#include "tools/sluice/bench/disturbed_rounds.hpp"

#include <gtest/gtest.h>

#include <cstddef>
#include <vector>

namespace sluice::cli {
namespace {

std::vector<std::size_t> numbers_of(const std::vector<bool>& disturbed) {
  std::vector<std::size_t> numbers;
  for (std::size_t i = 0; i < disturbed.size(); ++i) {
    if (disturbed[i]) numbers.push_back(i);
  }
  return numbers;
}

TEST(disturbed_rounds, are_those_far_above_the_median) {
  const round_sign times{{10, 11, 10, 30, 9, 10, 11, 1}};
  EXPECT_EQ(numbers_of(disturbed_rounds(8, {times})), (std::vector<std::size_t>{3}));
}

TEST(disturbed_rounds, are_none_in_the_usual_spread) {
  const round_sign times{{10, 12, 14, 11, 9, 13, 8, 10}};
  EXPECT_TRUE(numbers_of(disturbed_rounds(8, {times})).empty());
}

TEST(disturbed_rounds, may_be_told_by_any_sign) {
  const round_sign times{{10, 10, 10, 10, 10, 10, 10, 20}};
  const round_sign switches{{0, 0, 40, 0, 2, 0, 0, 0}, 2};
  EXPECT_EQ(numbers_of(disturbed_rounds(8, {times, switches})), (std::vector<std::size_t>{2, 7}));
}

TEST(disturbed_rounds, are_at_most_a_quarter) {
  const round_sign times{{10, 10, 10, 10, 10, 70, 80, 90}};
  EXPECT_EQ(numbers_of(disturbed_rounds(8, {times})), (std::vector<std::size_t>{6, 7}));
  EXPECT_TRUE(numbers_of(disturbed_rounds(3, {round_sign{{10, 10, 90}}})).empty());
  EXPECT_TRUE(numbers_of(disturbed_rounds(0, {round_sign{}})).empty());
}

}  // namespace
}  // namespace sluice::cli
