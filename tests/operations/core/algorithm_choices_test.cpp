// SPDX-License-Identifier: Apache-2.0
// Choices among the algorithms of libraries: the first one holds, and measured ones stay on disk.
#include "operations/core/algorithm_choices.hpp"

#include <gtest/gtest.h>

#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <string>
#include <thread>
#include <vector>

namespace sluice::test {
namespace {

using operations::algorithm_choices;
using operations::disk_cache;

class algorithm_choice : public testing::Test {
 protected:
  algorithm_choice() {
    std::string name = (std::filesystem::temp_directory_path() / "sluice_choices_XXXXXX").string();
    folder_ = mkdtemp(name.data());
  }
  ~algorithm_choice() override { std::filesystem::remove_all(folder_); }

  /// The choices of another process.
  [[nodiscard]] algorithm_choices choices() const { return algorithm_choices(disk_cache(folder_)); }

  std::filesystem::path folder_;
};

TEST_F(algorithm_choice, holds_for_a_process) {
  auto own = choices();
  EXPECT_FALSE(own.find("a product"));
  EXPECT_EQ(own.keep("a product", 3, false), 3U);
  EXPECT_EQ(own.keep("a product", 5, true), 3U);
  EXPECT_EQ(own.find("a product"), 3U);
  EXPECT_FALSE(own.find("another product"));
  // It was not measured, and neither was the one that came too late.
  EXPECT_FALSE(choices().find("a product"));
}

TEST_F(algorithm_choice, is_kept_on_disk_if_it_was_measured) {
  EXPECT_EQ(choices().keep("a product", 0x01020304, true), 0x01020304U);
  auto next = choices();
  EXPECT_EQ(next.find("a product"), 0x01020304U);
  EXPECT_EQ(next.keep("a product", 1, true), 0x01020304U);
  EXPECT_EQ(choices().find("a product"), 0x01020304U);
}

TEST_F(algorithm_choice, ignores_files_of_another_size) {
  const disk_cache files(folder_);
  files.keep("a product", {1, 2, 3});
  EXPECT_FALSE(choices().find("a product"));
  files.keep("another product", {1, 0, 0, 0, 0});
  EXPECT_FALSE(choices().find("another product"));
}

TEST_F(algorithm_choice, is_the_first_beyond_the_limit) {
  algorithm_choices own{disk_cache()};
  for (std::size_t i = 0; i < algorithm_choices::max_choices; ++i) {
    EXPECT_EQ(own.keep("product " + std::to_string(i), 7, false), 7U);
  }
  EXPECT_EQ(own.keep("one too many", 3, true), 0U);
  EXPECT_EQ(own.find("one too many"), 0U);
  EXPECT_EQ(own.find("product 0"), 7U);
}

TEST_F(algorithm_choice, is_the_same_for_all_threads) {
  auto own = choices();
  constexpr std::uint32_t count = 8;
  std::vector<std::uint32_t> kept(count);
  std::vector<std::thread> threads;
  for (std::uint32_t i = 0; i < count; ++i) {
    threads.emplace_back([&, i] { kept[i] = own.keep("a product", i, true); });
  }
  for (auto& thread : threads) thread.join();
  EXPECT_EQ(kept, std::vector(count, kept.front()));
  EXPECT_EQ(choices().find("a product"), kept.front());
}

}  // namespace
}  // namespace sluice::test
