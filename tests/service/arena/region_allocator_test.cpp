// SPDX-License-Identifier: Apache-2.0
#include "service/arena/region_allocator.hpp"

#include "tests/support/seed.hpp"

#include <gtest/gtest.h>

#include <cstdint>
#include <map>
#include <random>
#include <stdexcept>
#include <thread>
#include <vector>

namespace sluice::service {
namespace {

constexpr std::uint64_t granule = region_allocator::alignment;

TEST(region_allocator, allocates_all_and_then_nothing) {
  region_allocator regions(1024, 4 * granule);
  EXPECT_EQ(regions.allocate(1), 1024);
  EXPECT_EQ(regions.allocate(granule + 1), 1024 + granule);
  EXPECT_EQ(regions.bytes_in_use(), 3 * granule);
  EXPECT_EQ(regions.allocate(granule + 1), std::nullopt);
  EXPECT_EQ(regions.allocate(0), 1024 + 3 * granule) << "a region of no bytes has its own offset";
  EXPECT_EQ(regions.allocate(0), std::nullopt);
  EXPECT_EQ(regions.bytes_in_use(), regions.capacity());
}

TEST(region_allocator, refuses_sizes_that_overflow) {
  region_allocator regions(0, 4 * granule);
  for (std::uint64_t less = 0; less < 2 * granule; ++less) {
    EXPECT_EQ(regions.allocate(~std::uint64_t{0} - less), std::nullopt);
  }
  EXPECT_EQ(region_allocator(0, 0).allocate(1), std::nullopt);
}

TEST(region_allocator, refuses_ranges_and_offsets_that_are_none) {
  EXPECT_THROW(region_allocator(1, granule), std::invalid_argument);
  EXPECT_THROW(region_allocator(0, granule + 1), std::invalid_argument);
  region_allocator regions(0, 4 * granule);
  const auto offset = regions.allocate(2 * granule);
  EXPECT_THROW(regions.deallocate(*offset + granule), std::invalid_argument);
  EXPECT_THROW(regions.deallocate(2 * granule), std::invalid_argument) << "a free region";
  regions.deallocate(*offset);
  EXPECT_THROW(regions.deallocate(*offset), std::invalid_argument);
  EXPECT_EQ(regions.bytes_in_use(), 0);
}

TEST(region_allocator, unites_free_neighbours_in_any_order) {
  auto generator = sluice::test::make_generator();
  for (int round = 0; round < 200; ++round) {
    constexpr std::uint64_t count = 16;
    region_allocator regions(0, count * granule);
    std::vector<std::uint64_t> offsets;
    while (const auto offset = regions.allocate(granule)) offsets.push_back(*offset);
    ASSERT_EQ(offsets.size(), count);
    std::shuffle(offsets.begin(), offsets.end(), generator);
    for (const auto offset : offsets) regions.deallocate(offset);
    ASSERT_EQ(regions.allocate(count * granule), 0);
  }
}

TEST(region_allocator, agrees_with_a_map_of_granules) {
  auto generator = sluice::test::make_generator();
  constexpr std::uint64_t begin = 7 * granule;
  constexpr std::uint64_t count = 64;
  region_allocator regions(begin, count * granule);
  std::vector<bool> taken(count);
  std::map<std::uint64_t, std::uint64_t> allocated;  // granules by offset
  const auto longest_gap = [&] {
    std::uint64_t longest = 0, gap = 0;
    for (const bool is_taken : taken) longest = std::max(longest, gap = is_taken ? 0 : gap + 1);
    return longest;
  };
  for (int step = 0; step < 20'000; ++step) {
    if (generator() % 2 == 0) {
      const auto bytes = std::uniform_int_distribution<std::uint64_t>(1, 12 * granule)(generator);
      const auto granules = (bytes + granule - 1) / granule;
      const auto offset = regions.allocate(bytes);
      ASSERT_EQ(offset.has_value(), granules <= longest_gap());
      if (!offset) continue;
      ASSERT_EQ(*offset % granule, 0);
      ASSERT_TRUE(*offset >= begin && *offset + granules * granule <= begin + count * granule);
      for (std::uint64_t i = 0; i < granules; ++i) {
        ASSERT_FALSE(taken[(*offset - begin) / granule + i]);
        taken[(*offset - begin) / granule + i] = true;
      }
      allocated.emplace(*offset, granules);
    } else if (!allocated.empty()) {
      const auto freed =
          std::next(allocated.begin(), static_cast<std::ptrdiff_t>(generator() % allocated.size()));
      for (std::uint64_t i = 0; i < freed->second; ++i) {
        taken[(freed->first - begin) / granule + i] = false;
      }
      regions.deallocate(freed->first);
      allocated.erase(freed);
    }
    ASSERT_EQ(regions.bytes_in_use(),
              granule * static_cast<std::uint64_t>(std::count(taken.begin(), taken.end(), true)));
  }
}

TEST(region_allocator, serves_several_threads) {
  constexpr std::uint64_t count = 32;
  region_allocator regions(0, count * granule);
  std::vector<int> owners(count);  // a race here is two threads with one region
  std::vector<std::thread> threads;
  for (int id = 1; id <= 4; ++id) {
    threads.emplace_back([&, id] {
      for (int i = 0; i < 5'000; ++i) {
        const auto granules = static_cast<std::uint64_t>(1 + i % 5);
        const auto offset = regions.allocate(granules * granule);
        if (!offset) continue;
        for (std::uint64_t g = 0; g < granules; ++g) owners[*offset / granule + g] = id;
        for (std::uint64_t g = 0; g < granules; ++g) EXPECT_EQ(owners[*offset / granule + g], id);
        regions.deallocate(*offset);
      }
    });
  }
  for (auto& thread : threads) thread.join();
  EXPECT_EQ(regions.allocate(count * granule), 0);
}

}  // namespace
}  // namespace sluice::service
