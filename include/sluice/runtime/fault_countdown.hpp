// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>

namespace sluice {

/// Counts operations and decides which of them fail. For tests.
///
/// Thread-safe. All accesses are relaxed, so the counter orders no threads.
class fault_countdown {
 public:
  /// Makes `count` operations fail, beginning with the `nth` from now. 1 is the next operation.
  ///
  /// The call replaces the previous setting. `nth` 0 removes it.
  void fail_nth(std::uint64_t nth, std::uint64_t count = 1) noexcept {
    constexpr auto limit = std::uint64_t{1} << 62U;  // more operations than a process makes
    const auto failures = std::min(count, limit);
    count_.store(static_cast<std::int64_t>(failures), std::memory_order_relaxed);
    remaining_.store(nth == 0 ? 0 : static_cast<std::int64_t>(std::min(nth, limit) + failures - 1),
                     std::memory_order_relaxed);
  }
  /// Counts one operation. Returns whether it must fail.
  [[nodiscard]] bool strikes() noexcept {
    if (remaining_.load(std::memory_order_relaxed) <= 0) return false;
    const auto remaining = remaining_.fetch_sub(1, std::memory_order_relaxed);
    return remaining >= 1 && remaining <= count_.load(std::memory_order_relaxed);
  }

 private:
  std::atomic<std::int64_t> remaining_{0};  // operations up to the last one that fails
  std::atomic<std::int64_t> count_{0};
};

}  // namespace sluice
