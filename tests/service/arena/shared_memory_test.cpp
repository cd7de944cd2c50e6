// SPDX-License-Identifier: Apache-2.0
#include "service/arena/shared_memory.hpp"

#include "service/arena/arena_layout.hpp"

#include <gtest/gtest.h>
#include <sys/mman.h>

#include <algorithm>
#include <cerrno>
#include <fcntl.h>
#include <limits>
#include <stdexcept>
#include <system_error>
#include <unistd.h>
#include <utility>
#include <vector>

namespace sluice::service {
namespace {

TEST(shared_memory, is_zero_and_seen_through_every_mapping) {
  const auto memory = shared_memory::create(8192);
  ASSERT_EQ(memory.bytes().size(), 8192);
  EXPECT_TRUE(std::all_of(memory.bytes().begin(), memory.bytes().end(),
                          [](std::byte b) { return b == std::byte{0}; }));
  shared_memory second(file_descriptor(::dup(memory.descriptor())));
  ASSERT_EQ(second.bytes().size(), 8192);
  second.bytes()[8191] = std::byte{7};
  EXPECT_EQ(memory.bytes()[8191], std::byte{7});
  const auto moved = std::move(second);
  EXPECT_EQ(moved.bytes()[8191], std::byte{7});
}

TEST(shared_memory, keeps_its_size) {
  const auto memory = shared_memory::create(8192);
  EXPECT_EQ(::ftruncate(memory.descriptor(), 0), -1);
  EXPECT_EQ(::ftruncate(memory.descriptor(), 16384), -1);
  EXPECT_EQ(::fcntl(memory.descriptor(), F_ADD_SEALS, F_SEAL_WRITE), -1);
  EXPECT_NE(::fcntl(memory.descriptor(), F_GETFD) & FD_CLOEXEC, 0);
}

TEST(shared_memory, refuses_memory_that_can_shrink) {
  file_descriptor unsealed(::memfd_create("unsealed", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  ASSERT_EQ(::ftruncate(unsealed.get(), 4096), 0);
  try {
    const shared_memory memory(std::move(unsealed));
    FAIL() << "mapped";
  } catch (const std::system_error& error) {
    EXPECT_EQ(error.code().value(), EINVAL);
  }
  EXPECT_THROW(shared_memory{file_descriptor()}, std::system_error);
  EXPECT_THROW((void)shared_memory::create(std::numeric_limits<std::uint64_t>::max()),
               std::system_error);
}

TEST(arena_layout, is_read_from_the_memory_as_it_was_written) {
  const arena_layout layout({.request_bytes = 1, .reply_bytes = 5000, .ring_capacity = 4});
  EXPECT_EQ(layout.requests().bytes, 4096);
  EXPECT_EQ(layout.replies().bytes, 8192);
  std::vector<std::byte> memory(layout.bytes());
  EXPECT_THROW(arena_layout{std::span<const std::byte>(memory)}, std::invalid_argument);
  layout.write(memory);
  const arena_layout copy{std::span<const std::byte>(memory)};
  EXPECT_EQ(copy.bytes(), layout.bytes());
  EXPECT_EQ(copy.replies().begin, layout.replies().begin);
  memory.resize(memory.size() + 4096);
  EXPECT_THROW(arena_layout{std::span<const std::byte>(memory)}, std::invalid_argument);
}

TEST(arena_layout, refuses_impossible_sizes) {
  const auto refuses = [](const arena_sizes& sizes) {
    EXPECT_THROW(arena_layout{sizes}, std::invalid_argument);
  };
  refuses({.request_bytes = 0, .reply_bytes = 1});
  refuses({.request_bytes = 1, .reply_bytes = 0});
  refuses({.request_bytes = ~std::uint64_t{0}, .reply_bytes = 1});
  refuses({.request_bytes = 1, .reply_bytes = 1, .ring_capacity = 0});
  refuses({.request_bytes = 1, .reply_bytes = 1, .ring_capacity = 3});
  refuses({.request_bytes = 1, .reply_bytes = 1, .ring_capacity = std::uint64_t{1} << 62});
}

}  // namespace
}  // namespace sluice::service
