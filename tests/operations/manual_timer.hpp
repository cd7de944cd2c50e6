// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sluice/envelope/timer.hpp>

#include <cstddef>
#include <cstdint>
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
  ticket call_at(time_point when, std::function<void()> expired) override {
    ticket call{when};
    {
      const std::lock_guard lock(mutex_);
      call.number = ++last_number_;
      if (when > now_) {
        waiting_.emplace(std::pair(when, call.number), std::move(expired));
        return call;
      }
    }
    expired();
    return call;
  }
  void cancel(const ticket& call) noexcept override {
    const std::lock_guard lock(mutex_);
    waiting_.erase({call.when, call.number});
  }
  /// The number of functions that have not been called.
  [[nodiscard]] std::size_t waiting() const {
    const std::lock_guard lock(mutex_);
    return waiting_.size();
  }
  /// Sets the clock forward, and calls the functions whose time has come.
  void advance(std::chrono::nanoseconds duration) {
    std::vector<std::function<void()>> due;
    {
      const std::lock_guard lock(mutex_);
      now_ += duration;
      while (!waiting_.empty() && waiting_.begin()->first.first <= now_) {
        due.push_back(std::move(waiting_.extract(waiting_.begin()).mapped()));
      }
    }
    for (const auto& expired : due) expired();
  }

 private:
  mutable std::mutex mutex_;
  time_point now_{std::chrono::hours(1)};
  std::map<std::pair<time_point, std::uint64_t>, std::function<void()>> waiting_;
  std::uint64_t last_number_ = 0;
};

}  // namespace sluice::test
