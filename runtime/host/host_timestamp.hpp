// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sluice/runtime/device.hpp>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <span>

namespace sluice::host {

/// A timestamp of the host device, with the times of marks that were made behind it on its stream.
/// The stream's thread stores the times. All accesses are relaxed, so reading or reusing a
/// timestamp orders no thread after the stream's work.
///
/// As with an event of CUDA, only the record that was queued last counts. An earlier one may still
/// wait on another stream, behind a launch that was cancelled.
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

  /// Queues a record. Returns its number.
  [[nodiscard]] std::uint32_t queue_record() noexcept {
    return newest_record_.fetch_add(1, std::memory_order_relaxed) + 1;
  }
  /// Takes the time of a record.
  void take(std::uint32_t record) noexcept {
    if (!is_newest(record)) return;
    mark_count_.store(0, std::memory_order_relaxed);
    time_.store(clock::now().time_since_epoch().count(), std::memory_order_relaxed);
  }
  /// Marks the current time behind a record, unless there are enough marks.
  void mark(std::uint32_t record) noexcept {
    if (!is_newest(record)) return;
    const auto count = mark_count_.load(std::memory_order_relaxed);
    if (count == marks_.size()) return;
    marks_[count].store(clock::now().time_since_epoch().count(), std::memory_order_relaxed);
    mark_count_.store(count + 1, std::memory_order_relaxed);
  }
  [[nodiscard]] clock::time_point time() const noexcept {
    return clock::time_point(clock::duration(time_.load(std::memory_order_relaxed)));
  }
  /// Copies the times of the first marks. Returns their number.
  [[nodiscard]] std::size_t copy_marks(std::span<clock::time_point> times) const noexcept {
    const auto count = std::min(times.size(), mark_count_.load(std::memory_order_relaxed));
    for (std::size_t i = 0; i < count; ++i) {
      times[i] = clock::time_point(clock::duration(marks_[i].load(std::memory_order_relaxed)));
    }
    return count;
  }

 private:
  [[nodiscard]] bool is_newest(std::uint32_t record) const noexcept {
    return newest_record_.load(std::memory_order_relaxed) == record;
  }

  std::atomic<std::uint32_t> shares_{1};
  std::atomic<std::uint32_t> newest_record_{0};
  std::atomic<clock::rep> time_{0};
  std::atomic<std::size_t> mark_count_{0};
  std::array<std::atomic<clock::rep>, timestamp_clock::most_marks> marks_{};
};

}  // namespace sluice::host
