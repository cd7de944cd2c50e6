// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>

namespace sluice::detail {

/// Wakes sleepers without ordering the raising thread after them.
///
///     // sleeper
///     signal.wait([&] { return done.load(std::memory_order_acquire); });
///     // any other thread
///     done.store(true, std::memory_order_release);
///     signal.raise();
///
/// The raising thread acquires nothing, so synchronization has one direction: from `raise` to the
/// return of `wait`. The standard library's `notify_all` reads the number of waiters with acquire
/// order. That would order the notifier after the waiter, which no GPU does, and it would hide
/// missing waits from ThreadSanitizer. Thread-safe.
class one_way_signal {
 public:
  /// Wakes all sleepers. Synchronizes with a return of `wait` that this call causes.
  void raise() noexcept;

  /// Returns once `ready()` is true. `ready` reads state that is changed before `raise`, with
  /// acquire order if the caller depends on it. It is called at least once.
  template <class Ready>
  void wait(Ready ready) noexcept {
    for (int spins = 0; spins < 256; ++spins) {
      if (ready()) return;
    }
    for (;;) {
      const auto word = announce_sleeper();
      if (ready()) return;
      sleep_while(word, nullptr);
      if (ready()) return;
    }
  }

  /// Waits for at most about `timeout`. It may return before `ready()` is true.
  template <class Ready>
  void wait_for(std::chrono::nanoseconds timeout, Ready ready) noexcept {
    if (ready()) return;
    const auto word = announce_sleeper();
    if (!ready()) sleep_while(word, &timeout);
  }

 private:
  // Bit 0: a thread sleeps or is about to. The other bits count raises, so a raise between the
  // check and the sleep is not lost.
  std::atomic<std::uint32_t> word_{0};

  std::uint32_t announce_sleeper() noexcept {
    return word_.fetch_or(1, std::memory_order_acquire) | 1U;
  }
  void sleep_while(std::uint32_t word, const std::chrono::nanoseconds* timeout) noexcept;
};

}  // namespace sluice::detail
