// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>

namespace sluice::detail {

/// Wakes sleepers without ordering the raiser after them.
///
/// The library's `atomic::wait` counts its waiters in an atomic that the notifier reads with
/// acquire: that would order the notifier after whatever the waiter did before it slept, an edge
/// that no GPU has and behind which ThreadSanitizer would hide a missing fence. Here the raiser's
/// only access is a read-modify-write with release, so synchronisation goes one way: from `raise`
/// to the return of `wait`.
class one_way_signal {
 public:
  /// Wakes all sleepers. What happened before is visible to whoever returns from `wait` because of
  /// it.
  void raise() noexcept;

  /// Returns when `ready()` is true. `ready` must read, with acquire where it matters, state that
  /// is changed before `raise`; it is called at least once.
  template <class Ready>
  void wait(Ready ready) noexcept {
    for (int spins = 0; spins < 256; ++spins) {
      if (ready()) return;
    }
    for (;;) {
      const auto seen = announce_sleeper();
      if (ready()) return;
      sleep_while(seen, nullptr);
      if (ready()) return;
    }
  }

  /// The same, for at most about `longest`.
  template <class Ready>
  void wait_for(std::chrono::nanoseconds longest, Ready ready) noexcept {
    if (ready()) return;
    const auto seen = announce_sleeper();
    if (!ready()) sleep_while(seen, &longest);
  }

 private:
  // Bit 0: somebody sleeps or is about to. The rest counts raises, so that a raise between looking
  // and sleeping is seen.
  std::atomic<std::uint32_t> word_{0};

  std::uint32_t announce_sleeper() noexcept {
    return word_.fetch_or(1, std::memory_order_acquire) | 1U;
  }
  void sleep_while(std::uint32_t seen, const std::chrono::nanoseconds* longest) noexcept;
};

}  // namespace sluice::detail
