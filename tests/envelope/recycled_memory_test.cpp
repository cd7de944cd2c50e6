// SPDX-License-Identifier: Apache-2.0
#include <sluice/envelope/recycled_memory.hpp>

#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <set>
#include <thread>
#include <utility>
#include <vector>

namespace sluice::detail {
namespace {

constexpr std::size_t bytes = 64;

TEST(recycled_memory, returns_the_blocks_that_it_was_given) {
  if (!recycled_memory::keeps_blocks) GTEST_SKIP() << "AddressSanitizer: no block is kept";
  const recycled_memory_owner<> owner(new recycled_memory);
  auto& memory = *owner;
  const std::set<void*> first{memory.take(bytes), memory.take(bytes), memory.take(bytes)};
  EXPECT_EQ(first.size(), 3u);
  for (void* const block : first) memory.give_back(block);
  const std::set<void*> second{memory.take(bytes), memory.take(bytes), memory.take(bytes)};
  EXPECT_EQ(second, first);
  for (void* const block : second) memory.give_back(block);
}

/// Counts itself.
class counted_memory final : public recycled_memory {
 public:
  counted_memory() { ++alive; }
  static std::atomic<int> alive;

 private:
  ~counted_memory() override { --alive; }
};
std::atomic<int> counted_memory::alive{0};

TEST(recycled_memory, ends_with_its_last_block) {
  for (const bool is_closed_first : {false, true}) {
    recycled_memory_owner<counted_memory> memory(new counted_memory);
    auto& blocks_of_memory = *memory;
    std::array<void*, 3> blocks{blocks_of_memory.take(bytes), blocks_of_memory.take(bytes),
                                blocks_of_memory.take(bytes)};
    blocks_of_memory.give_back(blocks[0]);
    if (is_closed_first) memory.reset();
    blocks_of_memory.give_back(blocks[1]);
    EXPECT_EQ(counted_memory::alive, 1);
    std::thread([&] { blocks_of_memory.give_back(blocks[2]); }).join();
    if (!is_closed_first) {
      EXPECT_EQ(counted_memory::alive, 1);
      memory.reset();
    }
    EXPECT_EQ(counted_memory::alive, 0);
  }
}

TEST(recycled_memory, ends_once_when_it_is_closed_while_blocks_are_returned) {
  for (int round = 0; round < 300; ++round) {
    recycled_memory_owner<counted_memory> memory(new counted_memory);
    auto& blocks_of_memory = *memory;
    std::array<void*, 4> blocks{};
    for (auto& block : blocks) block = blocks_of_memory.take(bytes);
    std::atomic<int> ready{0};
    const auto meet = [&] {
      ++ready;
      while (ready.load() != 3) std::this_thread::yield();
    };
    std::vector<std::thread> returning;
    for (int t = 0; t < 2; ++t) {
      returning.emplace_back([&, t] {
        meet();
        for (int i = t; i < 4; i += 2)
          blocks_of_memory.give_back(blocks[static_cast<std::size_t>(i)]);
      });
    }
    meet();
    memory.reset();
    for (auto& thread : returning) thread.join();
    ASSERT_EQ(counted_memory::alive, 0);
  }
}

TEST(recycling_allocator, returns_its_memory_after_the_last_user) {
  recycled_memory_owner<counted_memory> memory(new counted_memory);
  auto small = std::allocate_shared<int>(recycling_allocator<int>(*memory), 42);
  const auto* const address = small.get();
  using large_object = std::array<std::byte, 4096>;
  auto large = std::allocate_shared<large_object>(recycling_allocator<large_object>(*memory));
  std::thread([mine = std::move(small)] { EXPECT_EQ(*mine, 42); }).join();
  small = std::allocate_shared<int>(recycling_allocator<int>(*memory), 43);
  if (recycled_memory::keeps_blocks) {
    EXPECT_EQ(small.get(), address);
  }
  memory.reset();
  EXPECT_EQ(counted_memory::alive, 1);
  small.reset();
  EXPECT_EQ(counted_memory::alive, 0);
  large.reset();  // it lies on the heap
}

// Each block has one user at a time: the threads that return blocks find the number that the taking
// thread has written.
TEST(recycled_memory, lends_a_block_to_one_user_at_a_time) {
  constexpr int rounds = 20'000;
  const recycled_memory_owner<> owner(new recycled_memory);
  auto& memory = *owner;
  std::array<std::atomic<std::uint64_t*>, 3> slots{};
  std::atomic<bool> done{false};
  std::atomic<int> wrong{0};
  std::vector<std::thread> returning;
  for (auto& slot : slots) {
    returning.emplace_back([&] {
      std::uint64_t last = 0;
      while (!done.load()) {
        auto* const block = slot.exchange(nullptr, std::memory_order_acquire);
        if (block == nullptr) {
          std::this_thread::yield();
          continue;
        }
        if (block[1] != ~block[2] || block[1] <= last) ++wrong;
        last = block[1];
        memory.give_back(block);
      }
    });
  }
  for (std::uint64_t i = 1; i <= rounds; ++i) {
    auto* const block = static_cast<std::uint64_t*>(memory.take(bytes));
    block[1] = i;
    block[2] = ~i;
    auto& slot = slots[i % slots.size()];
    for (std::uint64_t* free = nullptr;
         !slot.compare_exchange_weak(free, block, std::memory_order_release);) {
      free = nullptr;
      std::this_thread::yield();
    }
  }
  for (auto& slot : slots) {
    while (slot.load() != nullptr) std::this_thread::yield();
  }
  done.store(true);
  for (auto& thread : returning) thread.join();
  EXPECT_EQ(wrong.load(), 0);
}

}  // namespace
}  // namespace sluice::detail
