// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <cstdint>

namespace sluice::detail {

/// Counts the leases that one thread holds.
///
/// A thread that holds a lease never waits for another one, except as the owner of the turnstile.
/// Counters are never destroyed, so a recorder that is committed or destroyed on another thread can
/// still return its leases.
class alignas(64) lease_holder {
 public:
  /// The counter of the calling thread.
  [[nodiscard]] static lease_holder& of_this_thread();

  /// Adds leases. Only for the thread that owns the counter.
  void add(std::uint32_t leases) noexcept {
    taken_count_.store(taken_count_.load(std::memory_order_relaxed) + leases,
                       std::memory_order_relaxed);
  }
  /// Removes leases. Callable from any thread.
  void remove(std::uint32_t leases) noexcept;
  [[nodiscard]] bool holds_any() const noexcept {
    return taken_count_.load(std::memory_order_relaxed) !=
           foreign_returns_.load(std::memory_order_relaxed);
  }

  /// Whether the thread is inside the turnstile. Only for the thread that owns the counter.
  [[nodiscard]] bool in_turnstile() const noexcept { return in_turnstile_; }

 private:
  friend class turnstile_passage;

  // With two counters, a thread that takes and returns its leases itself needs no atomic
  // read-modify-write.
  std::atomic<std::uint32_t> taken_count_{0};
  std::atomic<std::uint32_t> foreign_returns_{0};
  bool in_turnstile_ = false;
};

}  // namespace sluice::detail
