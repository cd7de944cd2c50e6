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
    detail::owner_memory memory;
    byte_index index(memory);
    std::vector<byte_index::entry*> entries;
    std::uint64_t last_number = 0;
    const auto space = std::uint64_t{1} << (4 + generator() % 40);
    const auto draw = [&] {
      const auto begin = 1 + generator() % space;
      const auto most = std::uint64_t{1} << (generator() % 44);
      return byte_index::range{begin, begin + 1 + generator() % most, generator() % 2 == 0};
    };
    for (int step = 0; step < 400; ++step) {
      if (generator() % 3 == 0 && !entries.empty()) {
        const auto i = generator() % entries.size();
        index.remove(entries[i]);
        entries.erase(entries.begin() + static_cast<std::ptrdiff_t>(i));
      } else {
        if (last_number == 0 || generator() % 4 != 0) ++last_number;
        entries.push_back(index.add(draw(), last_number, nullptr, nullptr));
      }
      const auto bytes = draw();
      const auto number = generator() % (last_number + 2);
      std::set<std::uint64_t> expected;
      for (const auto* other : entries) {
        const auto& range = other->bytes;
        const bool conflicts = range.is_written || bytes.is_written;
        if (other->number < number && conflicts && range.begin < bytes.end &&
            bytes.begin < range.end) {
          expected.insert(other->number);
        }
      }
      std::set<std::uint64_t> found;
      EXPECT_FALSE(index.any_before(number, bytes, [&](const byte_index::entry& other) {
        found.insert(other.number);
        return false;
      }));
      ASSERT_EQ(found, expected);
      const auto any = [](const byte_index::entry&) {
        return true;
      };
      EXPECT_EQ(index.any_before(number, bytes, any), !found.empty());
    }
  }
}

TEST(byte_index, takes_ranges_at_both_ends_of_the_addresses) {
  detail::owner_memory memory;
  byte_index index(memory);
  const byte_index::range whole{0, UINTPTR_MAX, true};
  const byte_index::range first{0, 1, true};
  const byte_index::range last{UINTPTR_MAX - 1, UINTPTR_MAX, true};
  const auto any = [](const byte_index::entry&) {
    return true;
  };
  auto* const place = index.add(whole, 1, nullptr, nullptr);
  EXPECT_TRUE(index.any_before(2, first, any));
  EXPECT_TRUE(index.any_before(2, last, any));
  EXPECT_FALSE(index.any_before(1, last, any));
  index.remove(place);
  (void)index.add(first, 1, nullptr, nullptr);
  EXPECT_TRUE(index.any_before(2, whole, any));
  EXPECT_FALSE(index.any_before(2, last, any));
}

}  // namespace
}  // namespace sluice::operations
