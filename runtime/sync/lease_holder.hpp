// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <cstdint>

namespace sluice::detail {

/// Counts the leases that one thread holds. A thread that holds one never waits for another, except
/// as the owner of the turnstile. Counters live as long as the process, so that a recorder which is
/// committed or destroyed on another thread can still return its leases.
class alignas(64) lease_holder {
 public:
  /// The calling thread's.
  [[nodiscard]] static lease_holder& of_this_thread();

  /// On the thread whose counter this is.
  void add(std::uint32_t leases) noexcept {
    taken_.store(taken_.load(std::memory_order_relaxed) + leases, std::memory_order_relaxed);
  }
  /// On any thread.
  void remove(std::uint32_t leases) noexcept;
  [[nodiscard]] bool holds_any() const noexcept {
    return taken_.load(std::memory_order_relaxed) !=
           returned_elsewhere_.load(std::memory_order_relaxed);
  }

  /// Whether the thread owns the turnstile. On that thread.
  [[nodiscard]] bool in_turnstile() const noexcept { return in_turnstile_; }

 private:
  friend class turnstile_passage;

  // Two counters, so that the usual case, in which one thread takes and returns, needs no atomic
  // read-modify-write.
  std::atomic<std::uint32_t> taken_{0};
  std::atomic<std::uint32_t> returned_elsewhere_{0};
  bool in_turnstile_ = false;
};

}  // namespace sluice::detail
