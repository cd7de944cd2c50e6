// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "runtime/sync/spin_lock.hpp"

#include <sluice/runtime/memory_budget.hpp>

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <string_view>
#include <vector>

namespace sluice::detail {

/// The bytes and the number of live blocks of each tag. Tags are string literals, few, and found by
/// address, so adding allocates nothing and takes one short lock of the tag. If there is no room
/// for another tag, it counts as "other". Thread-safe.
class tag_totals {
 public:
  void add(allocation_tag tag, std::size_t bytes) noexcept {
    auto& t = of(tag.name());
    const std::lock_guard lock(t.mutex);
    t.bytes += bytes;
    ++t.blocks;
  }
  void subtract(allocation_tag tag, std::size_t bytes) noexcept {
    auto& t = of(tag.name());
    const std::lock_guard lock(t.mutex);
    t.bytes -= bytes;
    --t.blocks;
  }

  /// The bytes of all tags together.
  [[nodiscard]] std::size_t bytes() const noexcept {
    auto sum = bytes_of(other_);
    for (const auto& t : totals_) {
      if (t.key.load(std::memory_order_acquire) != nullptr) sum += bytes_of(t);
    }
    return sum;
  }

  /// Adds the totals to `sums`. Equal texts at different addresses are one tag.
  /// @throws std::bad_alloc
  void collect(std::vector<tagged_memory>& sums) const {
    for (const auto& t : totals_) {
      if (t.key.load(std::memory_order_acquire) != nullptr) add_to(sums, t.name, t);
    }
    add_to(sums, "other", other_);
  }

 private:
  struct total {
    // The address of the literal's first character. Texts at one address may differ in length, so
    // the length is part of `name`, which is written before the key.
    std::atomic<const char*> key{nullptr};
    std::atomic<bool> claimed{false};
    std::string_view name;
    mutable spin_lock mutex;
    std::size_t bytes = 0;
    std::size_t blocks = 0;
  };

  [[nodiscard]] static std::size_t bytes_of(const total& t) noexcept {
    const std::lock_guard lock(t.mutex);
    return t.bytes;
  }
  static void add_to(std::vector<tagged_memory>& sums, std::string_view name, const total& t) {
    std::size_t bytes = 0;
    std::size_t blocks = 0;
    {
      const std::lock_guard lock(t.mutex);
      bytes = t.bytes;
      blocks = t.blocks;
    }
    if (blocks == 0) return;
    for (auto& sum : sums) {
      if (sum.tag == name) {
        sum.bytes += bytes;
        sum.blocks += blocks;
        return;
      }
    }
    sums.push_back({name, bytes, blocks});
  }

  total& of(std::string_view name) noexcept {
    const auto hash = (reinterpret_cast<std::uintptr_t>(name.data()) >> 2) * 0x9E3779B97F4A7C15U;
    for (std::size_t i = 0; i < capacity; ++i) {
      auto& t = totals_[(hash + i) % capacity];
      const auto* key = t.key.load(std::memory_order_acquire);
      if (key == nullptr && !t.claimed.exchange(true, std::memory_order_acquire)) {
        t.name = name;
        t.key.store(name.data(), std::memory_order_release);
        return t;
      }
      // Another thread is writing the name of this entry.
      while (key == nullptr) key = t.key.load(std::memory_order_acquire);
      if (key == name.data() && t.name.size() == name.size()) return t;
    }
    return other_;
  }

  static constexpr std::size_t capacity = 128;
  std::array<total, capacity> totals_;
  total other_;
};

}  // namespace sluice::detail
