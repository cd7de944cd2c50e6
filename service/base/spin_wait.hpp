// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <chrono>
#include <cstddef>

namespace sluice::service {

/// Predicts from the last waits of a thread whether the next one is short.
class wait_forecast {
 public:
  using duration = std::chrono::steady_clock::duration;

  /// The longest wait that is short: a client that sends one request after the other may have its
  /// next one there after this time.
  static constexpr std::chrono::microseconds short_wait{100};

  void note(duration wait) noexcept {
    if (wait <= short_wait) {
      score_ = score_ < highest ? score_ + 1 : highest;
    } else {
      score_ = score_ > loss ? score_ - loss : 0;
    }
  }
  [[nodiscard]] bool is_short() const noexcept { return score_ >= threshold; }

 private:
  // Two of three waits have to be short, or the thread would spin for nothing too often.
  static constexpr int loss = 2;
  static constexpr int threshold = 4;
  static constexpr int highest = 8;
  int score_ = 0;
};

/// Limits the number of threads that spin. Thread-safe.
class spin_limit {
 public:
  explicit spin_limit(std::size_t threads) noexcept : threads_(threads) {}
  spin_limit(const spin_limit&) = delete;
  spin_limit& operator=(const spin_limit&) = delete;

  /// That of the process: a quarter of the processors, none if there are fewer than four.
  [[nodiscard]] static spin_limit& of_process() noexcept;

  [[nodiscard]] bool try_enter() noexcept {
    if (threads_ == 0) return false;
    if (spinning_.fetch_add(1, std::memory_order_relaxed) < threads_) return true;
    leave();
    return false;
  }
  void leave() noexcept { spinning_.fetch_sub(1, std::memory_order_relaxed); }

 private:
  const std::size_t threads_;
  std::atomic<std::size_t> spinning_{0};
};

/// Has a thread spin before it sleeps, while its waits are short. The kernel takes some
/// microseconds to wake a thread, which a request would meet on each thread on its way.
///
///     while (!work()) {
///       if (wait.spin([&] { return has_work(); })) continue;
///       sleep();
///       wait.end_sleep();
///     }
///
/// For one thread.
class spin_wait {
 public:
  using clock = std::chrono::steady_clock;

  explicit spin_wait(spin_limit& limit = spin_limit::of_process()) noexcept : limit_(limit) {}

  /// Begins a wait. Returns whether `is_due` has returned true; otherwise the thread has to sleep.
  template <class Condition>
  bool spin(const Condition& is_due) {
    begin_ = clock::now();
    if (!forecast_.is_short() || !limit_.try_enter()) return false;
    bool is_met = false;
    try {
      do {
        pause();
        is_met = is_due();
      } while (!is_met && clock::now() - begin_ < wait_forecast::short_wait);
    } catch (...) {
      limit_.leave();
      throw;
    }
    limit_.leave();
    if (is_met) forecast_.note(clock::now() - begin_);
    return is_met;
  }
  /// Ends the wait that the last call of `spin` began.
  void end_sleep() noexcept { forecast_.note(clock::now() - begin_); }

 private:
  static void pause() noexcept;

  spin_limit& limit_;
  wait_forecast forecast_{};
  clock::time_point begin_{};
};

}  // namespace sluice::service
