// SPDX-License-Identifier: Apache-2.0
#include "tests/support/seed.hpp"

#include <sluice/runtime/small_vector.hpp>

#include <gtest/gtest.h>

#include <utility>
#include <vector>

namespace sluice::detail {
namespace {

using tested_vector = small_vector<int, 3>;

std::vector<int> contents(const tested_vector& v) {
  return {v.begin(), v.end()};
}

tested_vector vector_of(int count) {
  tested_vector v;
  for (int i = 0; i < count; ++i) v.push_back(i);
  return v;
}

TEST(small_vector, holds_any_number) {
  for (int count = 0; count < 20; ++count) {
    const auto v = vector_of(count);
    EXPECT_EQ(v.size(), static_cast<std::size_t>(count));
    EXPECT_EQ(v.empty(), count == 0);
    for (int i = 0; i < count; ++i) EXPECT_EQ(v[static_cast<std::size_t>(i)], i);
  }
}

TEST(small_vector, copies_and_moves_on_both_sides_of_its_inline_size) {
  for (const int source_count : {0, 2, 3, 4, 9}) {
    for (const int target_count : {0, 2, 3, 4, 9}) {
      const auto expected = contents(vector_of(source_count));
      auto source = vector_of(source_count);
      auto copied = vector_of(target_count);
      copied = source;
      EXPECT_EQ(contents(copied), expected);
      EXPECT_EQ(contents(source), expected);
      auto moved = vector_of(target_count);
      moved = std::move(source);
      EXPECT_EQ(contents(moved), expected);
      EXPECT_TRUE(source.empty());  // NOLINT(bugprone-use-after-move): empty, and usable
      source.push_back(5);
      EXPECT_EQ(contents(source), std::vector<int>{5});
      const tested_vector constructed(std::move(moved));
      EXPECT_EQ(contents(constructed), expected);
    }
  }
}

TEST(small_vector, assignment_to_itself_changes_nothing) {
  for (const int count : {2, 9}) {
    auto v = vector_of(count);
    auto& same = v;
    v = same;
    EXPECT_EQ(contents(v), contents(vector_of(count)));
    v = std::move(same);
    EXPECT_EQ(contents(v), contents(vector_of(count)));
  }
}

TEST(small_vector, takes_an_element_of_its_own_while_it_grows) {
  tested_vector v;
  v.push_back(41);
  for (int i = 0; i < 10; ++i) v.push_back(v[0]);
  EXPECT_EQ(contents(v), std::vector<int>(11, 41));
}

TEST(small_vector, behaves_like_a_vector) {
  auto generator = test::make_generator();
  tested_vector v;
  std::vector<int> reference;
  for (int step = 0; step < 2000; ++step) {
    switch (generator() % 8) {
      case 0:
        if (generator() % 8 == 0) {
          v.clear();
          reference.clear();
        }
        break;
      case 1:
      case 2:
      case 3:
        if (!reference.empty()) {
          const auto i = generator() % reference.size();
          v.swap_remove(i);
          reference[i] = reference.back();
          reference.pop_back();
        }
        break;
      case 4: {
        const std::vector<int> more(generator() % 4, step);
        v.append(more);
        reference.insert(reference.end(), more.begin(), more.end());
        break;
      }
      default:
        v.push_back(step);
        reference.push_back(step);
    }
    ASSERT_EQ(contents(v), reference);
    if (!reference.empty()) {
      ASSERT_EQ(v.back(), reference.back());
    }
  }
}

}  // namespace
}  // namespace sluice::detail
