// SPDX-License-Identifier: Apache-2.0
#include "runtime/reports/report_table.hpp"

#include "tests/support/seed.hpp"

#include <gtest/gtest.h>

#include <atomic>
#include <cstdint>
#include <map>
#include <string>
#include <thread>
#include <vector>

namespace sluice::detail {
namespace {

using added = report_table::added;

/// Takes all waiting reports and adds them to `counts`.
void take_all(report_table& table, std::map<std::string, std::uint64_t>& counts) {
  for (std::size_t slot = 0; slot < report_table::slots; ++slot) {
    const auto state = table.look(slot);
    if (state.pending == 0) continue;
    report_table::text_buffer buffer;
    const std::string text(table.read(slot, buffer));
    table.take(slot, state.pending);
    counts[text] += state.pending;
  }
}

std::map<std::string, std::uint64_t> take_all(report_table& table) {
  std::map<std::string, std::uint64_t> counts;
  take_all(table, counts);
  return counts;
}

TEST(report_table, counts_equal_texts_in_one_slot) {
  report_table table;
  EXPECT_EQ(table.add("a", "b"), added::waiting);
  for (int i = 0; i < 10'000; ++i) EXPECT_EQ(table.add("a: b", ""), added::repeated);
  EXPECT_EQ(table.add("a", ""), added::waiting);
  EXPECT_EQ(take_all(table), (std::map<std::string, std::uint64_t>{{"a", 1}, {"a: b", 10'001}}));
  EXPECT_EQ(table.add("a", "b"), added::waiting) << "nothing of it was waiting any more";
  EXPECT_EQ(take_all(table), (std::map<std::string, std::uint64_t>{{"a: b", 1}}));
}

TEST(report_table, drops_new_texts_only_when_all_slots_wait) {
  report_table table;
  for (std::size_t i = 0; i < report_table::slots; ++i) {
    EXPECT_EQ(table.add("text", std::to_string(i)), added::waiting);
  }
  EXPECT_EQ(table.add("another", ""), added::dropped);
  EXPECT_EQ(table.add("text", "7"), added::repeated);
  EXPECT_EQ(take_all(table).size(), report_table::slots);
  EXPECT_EQ(table.add("another", ""), added::waiting) << "it takes the slot of a delivered text";
}

TEST(report_table, gives_the_oldest_delivered_text_up_first) {
  report_table table;
  for (std::size_t i = 0; i < report_table::slots; ++i) (void)table.add(std::to_string(i), "");
  std::map<std::string, std::uint64_t> sequences;
  report_table::text_buffer buffer;
  for (std::size_t slot = 0; slot < report_table::slots; ++slot) {
    sequences[std::string(table.read(slot, buffer))] = table.look(slot).sequence;
  }
  (void)take_all(table);
  (void)table.add("new", "");
  (void)table.add("1", "");
  for (std::size_t slot = 0; slot < report_table::slots; ++slot) {
    const auto state = table.look(slot);
    if (state.pending != 0 && table.read(slot, buffer) == "1") {
      EXPECT_EQ(state.sequence, sequences["1"]) << "its slot went to another text";
    }
  }
}

TEST(report_table, shortens_long_texts_and_keeps_them_on_one_line) {
  report_table table;
  (void)table.add(std::string(600, 'a'), std::string(600, 'b'));
  (void)table.add("two\nlines\r", "");
  const auto texts = take_all(table);
  ASSERT_EQ(texts.size(), 2u);
  const auto& text = texts.begin()->first;
  EXPECT_EQ(text.size(), report_table::longest_text);
  EXPECT_EQ(text.substr(598, 5), "aa: b");
  EXPECT_EQ(text.substr(text.size() - 4), "b...");
  EXPECT_EQ(texts.rbegin()->first, "two lines ");
}

TEST(report_table, loses_no_report_of_many_threads) {
  report_table table;
  constexpr int threads = 8;
  constexpr int rounds = 20'000;
  auto generator = test::make_generator();
  std::atomic<int> running{threads};
  std::atomic<std::uint64_t> dropped{0};
  std::vector<std::thread> all;
  for (int t = 0; t < threads; ++t) {
    all.emplace_back([&, draw = generator()]() mutable {
      for (int i = 0; i < rounds; ++i) {
        draw = draw * 6364136223846793005U + 1442695040888963407U;
        // There are more texts than slots.
        if (table.add("text", std::to_string((draw >> 33) % 100)) == added::dropped) ++dropped;
      }
      --running;
    });
  }
  std::map<std::string, std::uint64_t> counts;
  while (running.load() != 0) take_all(table, counts);
  for (auto& thread : all) thread.join();
  take_all(table, counts);
  std::uint64_t sum = dropped.load();
  for (const auto& [text, count] : counts) {
    EXPECT_TRUE(text.starts_with("text: ") && text.size() <= 8) << text;
    sum += count;
  }
  EXPECT_LE(counts.size(), 100u);
  EXPECT_EQ(sum, std::uint64_t{threads} * rounds);
}

}  // namespace
}  // namespace sluice::detail
