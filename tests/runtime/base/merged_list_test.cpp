// SPDX-License-Identifier: Apache-2.0
#include "runtime/base/merged_list.hpp"

#include "tests/support/seed.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <map>
#include <numeric>
#include <random>
#include <vector>

namespace sluice::detail {
namespace {

struct entry {
  std::uint64_t key;
  unsigned flags;
};

/// Rules that count comparisons.
struct counting_rules {
  static inline std::size_t comparisons = 0;
  static bool before(const entry& a, const entry& b) noexcept {
    ++comparisons;
    return a.key < b.key;
  }
  static bool same(const entry& a, const entry& b) noexcept {
    ++comparisons;
    return a.key == b.key;
  }
  static void absorb(entry& known, const entry& added) noexcept { known.flags |= added.flags; }
};

using tested_list = merged_list<entry, counting_rules, 8>;

TEST(merged_list, merges_like_a_map) {
  auto draw = test::make_generator();
  tested_list list;
  for (int round = 0; round < 200; ++round) {
    list.clear();
    EXPECT_TRUE(list.empty());
    std::map<std::uint64_t, unsigned> reference;
    const auto additions = draw() % 300;
    const auto keys = 1 + draw() % 200;
    for (std::uint64_t i = 0; i < additions; ++i) {
      const entry added{draw() % keys, 1U << (draw() % 8)};
      list.add(added);
      reference[added.key] |= added.flags;
      if (draw() % 32 == 0) {
        ASSERT_EQ(list.size(), reference.size());
      }
    }
    ASSERT_EQ(list.size(), reference.size());
    list.sort();
    auto expected = reference.begin();
    for (const auto& e : list) {
      ASSERT_EQ(e.key, expected->first);
      ASSERT_EQ(e.flags, expected->second);
      ++expected;
    }
    ASSERT_EQ(expected, reference.end());
  }
}

TEST(merged_list, keeps_the_order_of_a_few_elements) {
  tested_list list;
  for (const std::uint64_t key : {5, 3, 9, 3, 1}) list.add({key, 1});
  ASSERT_EQ(list.size(), 4u);
  EXPECT_EQ(list[0].key, 5u);
  EXPECT_EQ(list[3].key, 1u);
}

// A search at each addition would take count² / 2 comparisons: 80,000 for 400 elements.
TEST(merged_list, takes_nearly_linear_time) {
  auto draw = test::make_generator();
  for (const std::size_t count : {std::size_t{400}, std::size_t{6400}}) {
    std::vector<std::uint64_t> keys(count);
    std::iota(keys.begin(), keys.end(), std::uint64_t{0});
    std::shuffle(keys.begin(), keys.end(), draw);
    tested_list list;
    counting_rules::comparisons = 0;
    for (const auto key : keys) list.add({key, 1});
    list.sort();
    EXPECT_EQ(list.size(), count);
    EXPECT_LT(counting_rules::comparisons, 8 * count * std::bit_width(count));
  }
}

// Repeated additions of a few elements do not allocate each time.
TEST(merged_list, merges_repeated_elements_as_it_grows) {
  tested_list list;
  counting_rules::comparisons = 0;
  constexpr std::size_t additions = 10'000;
  for (std::size_t i = 0; i < additions; ++i) list.add({i % 12, 1});
  EXPECT_LT(list.capacity(), 200u);
  EXPECT_EQ(list.size(), 12u);
  EXPECT_LT(counting_rules::comparisons, 32 * additions);
}

TEST(merged_list, gives_the_memory_of_many_elements_back) {
  tested_list list;
  for (std::uint64_t i = 0; i < 100; ++i) list.add({i, 1});
  const auto held = list.capacity();
  list.clear();
  list.shrink(held);
  EXPECT_EQ(list.capacity(), held);
  list.shrink(held - 1);
  EXPECT_EQ(list.capacity(), 8u);
}

}  // namespace
}  // namespace sluice::detail
