// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>

namespace sluice::host {

/// A timestamp of the host device. The stream's thread stores the time. All accesses are relaxed,
/// so reading or reusing a timestamp orders no thread after the stream's work.
class host_timestamp {
 public:
  using clock = std::chrono::steady_clock;

  /// Adds a share. A timestamp is constructed with one; each queued task that uses it holds
  /// another.
  void hold() noexcept { shares_.fetch_add(1, std::memory_order_relaxed); }
  void let_go() noexcept {
    if (shares_.fetch_sub(1, std::memory_order_release) != 1) return;
    (void)shares_.load(std::memory_order_acquire);
    delete this;
  }

  void take() noexcept {
    time_.store(clock::now().time_since_epoch().count(), std::memory_order_relaxed);
  }
  [[nodiscard]] clock::time_point time() const noexcept {
    return clock::time_point(clock::duration(time_.load(std::memory_order_relaxed)));
  }

 private:
  std::atomic<std::uint32_t> shares_{1};
  std::atomic<clock::rep> time_{0};
};

}  // namespace sluice::host
