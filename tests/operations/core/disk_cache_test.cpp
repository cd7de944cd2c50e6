// SPDX-License-Identifier: Apache-2.0
// Files of what is slow to make: what is damaged or of something else is not used.
#include "operations/core/disk_cache.hpp"

#include "tests/support/seed.hpp"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <cstddef>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <random>
#include <string>
#include <thread>
#include <unistd.h>
#include <vector>

namespace sluice::test {
namespace {

using operations::disk_cache;

class disk_caches : public testing::Test {
 protected:
  disk_caches() {
    std::string name = (std::filesystem::temp_directory_path() / "sluice_kernels_XXXXXX").string();
    folder_ = mkdtemp(name.data());
  }
  ~disk_caches() override { std::filesystem::remove_all(folder_); }

  [[nodiscard]] std::vector<char> contents(const std::filesystem::path& file) const {
    std::ifstream stream(file, std::ios::binary);
    return {std::istreambuf_iterator<char>(stream), {}};
  }
  void replace(const std::filesystem::path& file, const std::vector<char>& bytes) const {
    std::ofstream(file, std::ios::binary | std::ios::trunc)
        .write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
  }
  [[nodiscard]] std::vector<char> random_bytes(std::size_t size) {
    std::vector<char> code(size);
    for (auto& c : code) c = static_cast<char>(generator_());
    return code;
  }

  std::filesystem::path folder_;
  std::mt19937_64 generator_ = make_generator();
};

TEST_F(disk_caches, find_what_they_keep) {
  const disk_cache cache(folder_ / "below" / "it");
  EXPECT_FALSE(cache.find("a"));
  const auto code = random_bytes(5000);
  cache.keep("a", code);
  cache.keep("empty", {});
  EXPECT_EQ(cache.find("a"), code);
  EXPECT_EQ(cache.find("empty"), std::vector<char>());
  EXPECT_FALSE(cache.find("b"));
  EXPECT_EQ(disk_cache(folder_ / "below" / "it").find("a"), code);
}

TEST_F(disk_caches, use_no_damaged_file_and_replace_it) {
  const disk_cache cache(folder_);
  const std::string origin = "what the code is made from";
  const auto code = random_bytes(200);
  cache.keep(origin, code);
  const auto file = cache.file_of(origin);
  const auto whole = contents(file);
  for (std::size_t i = 0; i < whole.size(); ++i) {
    auto damaged = whole;
    damaged[i] = static_cast<char>(damaged[i] ^ (1 << (generator_() % 8)));
    replace(file, damaged);
    EXPECT_FALSE(cache.find(origin)) << "byte " << i;
  }
  for (std::size_t size = 0; size < whole.size(); ++size) {
    replace(file, {whole.begin(), whole.begin() + static_cast<std::ptrdiff_t>(size)});
    EXPECT_FALSE(cache.find(origin)) << size << " bytes";
  }
  cache.keep(origin, code);
  EXPECT_EQ(cache.find(origin), code);
}

TEST_F(disk_caches, use_no_file_of_something_else) {
  const disk_cache cache(folder_);
  cache.keep("one", random_bytes(100));
  std::filesystem::copy(cache.file_of("one"), cache.file_of("two"));
  EXPECT_FALSE(cache.find("two"));
}

TEST_F(disk_caches, are_shared_by_writers) {
  const disk_cache cache(folder_);
  const std::vector<std::vector<char>> codes{random_bytes(30000), random_bytes(70000)};
  std::vector<std::thread> threads;
  for (std::size_t t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      for (int i = 0; i < 50; ++i) {
        cache.keep("both", codes[t % 2]);
        const auto found = cache.find("both");
        EXPECT_TRUE(found && (*found == codes[0] || *found == codes[1]));
      }
    });
  }
  for (auto& thread : threads) thread.join();
  // Nothing else is left.
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(folder_), {}), 1);
}

TEST_F(disk_caches, read_no_pipe) {
  const disk_cache cache(folder_);
  ASSERT_EQ(mkfifo(cache.file_of("a").c_str(), 0600), 0);
  EXPECT_FALSE(cache.find("a"));
  const auto bytes = random_bytes(10);
  cache.keep("a", bytes);
  EXPECT_EQ(cache.find("a"), bytes);
}

TEST_F(disk_caches, replace_a_damaged_file_when_they_are_full) {
  const disk_cache cache(folder_);
  cache.keep("a", random_bytes(10));
  replace(cache.file_of("a"), {});
  for (std::size_t i = 1; i < disk_cache::max_files; ++i) {
    replace(folder_ / std::to_string(i), {});
  }
  const auto bytes = random_bytes(10);
  cache.keep("b", bytes);
  EXPECT_FALSE(cache.find("b"));
  cache.keep("a", bytes);
  EXPECT_EQ(cache.find("a"), bytes);
}

TEST_F(disk_caches, may_have_no_folder) {
  const disk_cache none;
  none.keep("a", random_bytes(10));
  EXPECT_FALSE(none.find("a"));
  replace(folder_ / "file", {});
  const disk_cache impossible(folder_ / "file" / "below");
  impossible.keep("a", random_bytes(10));
  EXPECT_FALSE(impossible.find("a"));
}

}  // namespace
}  // namespace sluice::test
