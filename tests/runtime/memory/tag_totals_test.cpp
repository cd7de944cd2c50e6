// SPDX-License-Identifier: Apache-2.0
#include "runtime/memory/tag_totals.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

namespace sluice::test {
namespace {

using detail::tag_totals;

std::vector<tagged_memory> collected(const tag_totals& totals) {
  std::vector<tagged_memory> sums;
  totals.collect(sums);
  return sums;
}

/// The text "n…n" of Index + 1 characters, at an address of its own.
template <std::size_t Index>
struct literal {
  char text[Index + 2]{};
  consteval literal() {
    for (std::size_t i = 0; i <= Index; ++i) text[i] = 'n';
  }
};
template <std::size_t Index>
inline constexpr literal<Index> text_of{};

template <std::size_t... Index>
std::vector<allocation_tag> distinct_tags(std::index_sequence<Index...>) {
  return {allocation_tag(text_of<Index>.text)...};
}

TEST(tag_totals, add_up_per_tag) {
  tag_totals totals;
  EXPECT_TRUE(collected(totals).empty());
  totals.add("a", 5);
  totals.add("b", 7);
  totals.add("a", 1);
  totals.subtract("b", 7);
  const auto sums = collected(totals);
  ASSERT_EQ(sums.size(), 1u);
  EXPECT_EQ(sums[0].tag, "a");
  EXPECT_EQ(sums[0].bytes, 6u);
  EXPECT_EQ(sums[0].blocks, 2u);
}

TEST(tag_totals, take_equal_texts_for_one_tag) {
  static constexpr char here[] = "twice";
  static constexpr char there[] = "twice";
  tag_totals totals;
  totals.add(allocation_tag(here), 1);
  totals.add(allocation_tag(there), 2);
  const auto sums = collected(totals);
  ASSERT_EQ(sums.size(), 1u);
  EXPECT_EQ(sums[0].bytes, 3u);
}

TEST(tag_totals, count_as_other_what_there_is_no_room_for) {
  const auto tags = distinct_tags(std::make_index_sequence<200>());
  tag_totals totals;
  for (const auto& tag : tags) totals.add(tag, 10);
  const auto sums = collected(totals);
  EXPECT_LT(sums.size(), tags.size());
  const auto other = std::ranges::find(sums, "other", &tagged_memory::tag);
  ASSERT_NE(other, sums.end());
  EXPECT_EQ(other->blocks + sums.size() - 1, tags.size());
  for (const auto& tag : tags) totals.subtract(tag, 10);
  EXPECT_TRUE(collected(totals).empty());
}

TEST(tag_totals, lose_nothing_of_several_threads) {
  const auto tags = distinct_tags(std::make_index_sequence<60>());
  tag_totals totals;
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&] {
      for (int round = 0; round < 200; ++round) {
        for (const auto& tag : tags) {
          totals.add(tag, 3);
          totals.add(tag, 2);
          totals.subtract(tag, 3);
        }
      }
    });
  }
  for (auto& thread : threads) thread.join();
  const auto sums = collected(totals);
  ASSERT_EQ(sums.size(), tags.size());
  for (const auto& sum : sums) {
    EXPECT_EQ(sum.blocks, 800u) << sum.tag;
    EXPECT_EQ(sum.bytes, 1600u) << sum.tag;
  }
}

}  // namespace
}  // namespace sluice::test
