// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sluice/export.hpp>

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>

namespace sluice {

/// How the threads of a device service wait: the completion threads for launches, and the threads
/// of library actors for messages.
///
/// A spinning thread reacts several microseconds earlier than a sleeping one, which the kernel has
/// to wake. Threads of actors spin only while fewer than a quarter of the processors that the
/// process may use are spun on by threads of actors and of `ask`. They sleep at once if there are
/// fewer than four processors.
enum class wait_policy : std::uint8_t {
  latency,   ///< they spin for 10 ms before they sleep
  balanced,  ///< they spin for 50 µs before they sleep, and around the likely end of a launch, if
             ///< launches have taken the same time
  frugal,    ///< they sleep at once; a completion thread queries events every 10 to 250 µs
};

namespace detail {

/// How long threads spin before they sleep.
[[nodiscard]] constexpr std::chrono::microseconds spin_time(wait_policy policy) noexcept {
  switch (policy) {
    case wait_policy::latency:
      return std::chrono::milliseconds(10);
    case wait_policy::balanced:
      return std::chrono::microseconds(50);
    case wait_policy::frugal:
      break;
  }
  return std::chrono::microseconds(0);
}

/// The turns of a thread that spins until another thread has done something.
class SLUICE_EXPORT spin_turns {
 public:
  /// Ends one turn. Most turns pause the processor for some nanoseconds; some let other threads
  /// run, all of them if there are few processors. A yield takes about a microsecond, and a message
  /// that comes meanwhile waits for its end.
  void next() noexcept;

 private:
  unsigned count_ = 0;
};

/// Limits the number of threads that spin. Thread-safe.
class SLUICE_EXPORT spinners {
 public:
  explicit spinners(std::size_t limit) noexcept : limit_(limit) {}
  spinners(const spinners&) = delete;
  spinners& operator=(const spinners&) = delete;

  /// Takes note of a device service that begins or ends.
  ///@{
  void service_begins(wait_policy policy) noexcept { count(policy, 1); }
  void service_ends(wait_policy policy) noexcept { count(policy, -1); }
  ///@}
  /// How threads of no service wait: as with `latency` while a service with `latency` exists, else
  /// as with `balanced`.
  [[nodiscard]] wait_policy of_clients() const noexcept {
    return latency_services_.load(std::memory_order_relaxed) != 0 ? wait_policy::latency
                                                                  : wait_policy::balanced;
  }

  /// Those of the process: a quarter of the processors that it may use.
  [[nodiscard]] static spinners& of_process() noexcept;

  /// Spins until `condition()` returns true or the time of `policy` has passed, but
  /// returns at once if enough threads spin. Returns whether the condition has become true.
  template <class Condition>
  bool spin(wait_policy policy, const Condition& condition) noexcept {
    if (condition()) return true;
    const auto time = spin_time(policy);
    if (time.count() == 0 || limit_ == 0) return false;
    bool met = false;
    if (spinning_.fetch_add(1, std::memory_order_relaxed) < limit_) {
      const auto end = std::chrono::steady_clock::now() + time;
      spin_turns turns;
      do {
        turns.next();
        met = condition();
      } while (!met && std::chrono::steady_clock::now() < end);
    }
    spinning_.fetch_sub(1, std::memory_order_relaxed);
    return met;
  }

 private:
  void count(wait_policy policy, int more) noexcept {
    if (policy == wait_policy::latency)
      latency_services_.fetch_add(more, std::memory_order_relaxed);
  }

  const std::size_t limit_;
  std::atomic<std::size_t> spinning_{0};
  std::atomic<int> latency_services_{0};
};

}  // namespace detail
}  // namespace sluice
