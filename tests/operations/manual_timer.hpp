// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sluice/envelope/timer.hpp>

#include <functional>
#include <map>
#include <mutex>
#include <utility>
#include <vector>

namespace sluice::test {

/// A clock that a test sets forward. Thread-safe.
class manual_timer final : public timer {
 public:
  [[nodiscard]] time_point now() const noexcept override {
    const std::lock_guard lock(mutex_);
    return now_;
  }
  void call_at(time_point when, std::function<void()> expired) override {
    {
      const std::lock_guard lock(mutex_);
      if (when > now_) {
        waiting_.emplace(when, std::move(expired));
        return;
      }
    }
    expired();
  }
  /// Sets the clock forward, and calls the functions whose time has come.
  void advance(std::chrono::nanoseconds by) {
    std::vector<std::function<void()>> due;
    {
      const std::lock_guard lock(mutex_);
      now_ += by;
      while (!waiting_.empty() && waiting_.begin()->first <= now_) {
        due.push_back(std::move(waiting_.extract(waiting_.begin()).mapped()));
      }
    }
    for (const auto& expired : due) expired();
  }

 private:
  mutable std::mutex mutex_;
  time_point now_{std::chrono::hours(1)};
  std::multimap<time_point, std::function<void()>> waiting_;
};

}  // namespace sluice::test
