// SPDX-License-Identifier: Apache-2.0
#include "operations/executor/byte_index.hpp"

#include "tests/support/seed.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <random>
#include <set>
#include <utility>
#include <vector>

namespace sluice::operations {
namespace {

// Random ranges of all sizes, added and removed, against a search through all of them.
TEST(byte_index, finds_each_earlier_range_with_common_bytes) {
  auto generator = test::make_generator();
  for (int round = 0; round < 60; ++round) {
    byte_index index;
    std::vector<std::pair<std::uint64_t, byte_index::range>> all;
    std::uint64_t last_number = 0;
    const auto space = std::uint64_t{1} << (4 + generator() % 20);
    const auto draw = [&] {
      const auto begin = 1 + generator() % space;
      const auto most = std::uint64_t{1} << (generator() % 24);
      return byte_index::range{begin, begin + 1 + generator() % most, generator() % 2 == 0};
    };
    for (int step = 0; step < 400; ++step) {
      if (generator() % 3 == 0 && !all.empty()) {
        const auto which = generator() % all.size();
        index.remove(all[which].second, all[which].first);
        all.erase(all.begin() + static_cast<std::ptrdiff_t>(which));
      } else {
        if (last_number == 0 || generator() % 4 != 0) ++last_number;
        const auto range = draw();
        const auto is_equal = [&](const auto& one) {
          return one.first == last_number && one.second.begin == range.begin &&
                 one.second.end == range.end && one.second.is_written == range.is_written;
        };
        if (std::any_of(all.begin(), all.end(), is_equal)) continue;
        index.add(range, last_number);
        all.emplace_back(last_number, range);
      }
      const auto of = draw();
      const auto number = generator() % (last_number + 2);
      std::set<std::uint64_t> expected;
      for (const auto& [other, range] : all) {
        const bool conflicts = range.is_written || of.is_written;
        if (other < number && conflicts && range.begin < of.end && of.begin < range.end) {
          expected.insert(other);
        }
      }
      std::set<std::uint64_t> found;
      EXPECT_FALSE(index.any_before(number, of, [&](std::uint64_t other) {
        found.insert(other);
        return false;
      }));
      ASSERT_EQ(found, expected);
      EXPECT_EQ(index.any_before(number, of, [](std::uint64_t) { return true; }), !found.empty());
    }
  }
}

TEST(byte_index, takes_ranges_at_both_ends_of_the_addresses) {
  byte_index index;
  const byte_index::range all{0, UINTPTR_MAX, true};
  const byte_index::range first{0, 1, true};
  const byte_index::range last{UINTPTR_MAX - 1, UINTPTR_MAX, true};
  const auto any = [](std::uint64_t) {
    return true;
  };
  index.add(all, 1);
  EXPECT_TRUE(index.any_before(2, first, any));
  EXPECT_TRUE(index.any_before(2, last, any));
  EXPECT_FALSE(index.any_before(1, last, any));
  index.remove(all, 1);
  index.add(first, 1);
  EXPECT_TRUE(index.any_before(2, all, any));
  EXPECT_FALSE(index.any_before(2, last, any));
}

}  // namespace
}  // namespace sluice::operations
