// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <cstdint>

namespace sluice {

/// Counts operations and says which of them are to fail. Thread-safe; relaxed everywhere, so that
/// it orders none of the threads that it counts for.
class fault_countdown {
 public:
  /// The `nth` operation from now on fails (1 is the next one), and so do the ones after it,
  /// `count` in all. Replaces what was asked for before; 0 takes it back.
  void fail_nth(std::uint64_t nth, std::uint64_t count = 1) noexcept {
    count_.store(static_cast<std::int64_t>(count), std::memory_order_relaxed);
    left_.store(nth == 0 ? 0 : static_cast<std::int64_t>(nth + count - 1),
                std::memory_order_relaxed);
  }
  /// Counts one operation; true when it is to fail.
  [[nodiscard]] bool strikes() noexcept {
    if (left_.load(std::memory_order_relaxed) <= 0) return false;
    const auto left = left_.fetch_sub(1, std::memory_order_relaxed);
    return left >= 1 && left <= count_.load(std::memory_order_relaxed);
  }

 private:
  std::atomic<std::int64_t> left_{0};  // operations to the end of the fault
  std::atomic<std::int64_t> count_{0};
};

}  // namespace sluice
