// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <thread>

namespace sluice::detail {

/// Tells the processor that the calling thread spins.
inline void spin_pause() noexcept {
#if defined(__x86_64__) || defined(__i386__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}

/// A lock of one byte, for a few dozen instructions or one call. Yields after 64 rounds. Meets
/// *Lockable*.
class spin_lock {
 public:
  void lock() noexcept {
    for (int round = 0; locked_.exchange(true, std::memory_order_acquire); ++round) {
      while (locked_.load(std::memory_order_relaxed)) {
        if (round++ < 64) {
          spin_pause();
        } else {
          std::this_thread::yield();
        }
      }
    }
  }
  [[nodiscard]] bool try_lock() noexcept {
    return !locked_.load(std::memory_order_relaxed) &&
           !locked_.exchange(true, std::memory_order_acquire);
  }
  void unlock() noexcept { locked_.store(false, std::memory_order_release); }

 private:
  std::atomic<bool> locked_{false};
};

}  // namespace sluice::detail
