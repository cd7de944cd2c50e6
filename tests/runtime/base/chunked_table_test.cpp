// SPDX-License-Identifier: Apache-2.0
#include "runtime/base/chunked_table.hpp"

#include <gtest/gtest.h>

#include <thread>
#include <vector>

namespace sluice::detail {
namespace {

using tested_table = chunked_table<int, 4, 8>;

TEST(chunked_table, reads_zero_where_nothing_was_written) {
  const tested_table table;
  for (std::size_t i = 0; i < tested_table::capacity + 5; ++i) EXPECT_EQ(table.load(i), 0);
}

TEST(chunked_table, keeps_every_element) {
  tested_table table;
  for (std::size_t i = 0; i < tested_table::capacity; ++i) {
    ASSERT_NE(table.at(i), nullptr);
    table.at(i)->store(static_cast<int>(i) + 1);
  }
  for (std::size_t i = 0; i < tested_table::capacity; ++i) {
    EXPECT_EQ(table.load(i), static_cast<int>(i) + 1);
  }
}

TEST(chunked_table, has_nothing_beyond_its_capacity) {
  tested_table table;
  EXPECT_EQ(table.at(tested_table::capacity), nullptr);
  EXPECT_EQ(table.load(tested_table::capacity), 0);
}

TEST(chunked_table, elements_do_not_move) {
  tested_table table;
  auto* first = table.at(0);
  for (std::size_t i = 0; i < tested_table::capacity; ++i) (void)table.at(i);
  EXPECT_EQ(table.at(0), first);
}

TEST(chunked_table, threads_that_make_one_chunk_share_it) {
  for (int round = 0; round < 100; ++round) {
    tested_table table;
    std::vector<std::thread> threads;
    for (int i = 0; i < 4; ++i) {
      threads.emplace_back([&] {
        for (std::size_t index = 0; index < tested_table::capacity; ++index)
          table.at(index)->fetch_add(1);
      });
    }
    for (auto& thread : threads) thread.join();
    for (std::size_t index = 0; index < tested_table::capacity; ++index)
      ASSERT_EQ(table.load(index), 4);
  }
}

}  // namespace
}  // namespace sluice::detail
