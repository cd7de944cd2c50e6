// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sluice/envelope/kernel_trace.hpp>

#include <condition_variable>
#include <cstddef>
#include <functional>
#include <mutex>
#include <string>
#include <vector>

namespace sluice::test {

/// Requests timestamps and records them.
class timing_trace final : public kernel_trace {
 public:
  struct launch {
    std::uint64_t launch_id = 0;
    std::string library;
    std::string operation;
    std::string label;
    kernel_times times;
  };
  /// Called in the hooks of these names.
  std::function<void()> in_after_complete;
  std::function<void()> in_after_timestamps;

  void after_complete(const kernel_info&, const kernel_outcome&) override {
    if (in_after_complete) in_after_complete();
  }
  [[nodiscard]] bool wants_timestamps() const noexcept override { return true; }
  void after_timestamps(const kernel_info& info, const kernel_times& times) override {
    {
      const std::lock_guard lock(mutex_);
      launches_.push_back({info.launch_id, std::string(info.library), std::string(info.operation),
                           std::string(info.label), times});
    }
    more_.notify_all();
    if (in_after_timestamps) in_after_timestamps();
  }

  /// The timestamps received so far, in the order of arrival.
  [[nodiscard]] std::vector<launch> launches() const {
    const std::lock_guard lock(mutex_);
    return launches_;
  }
  /// Waits for the timestamps of `count` launches.
  [[nodiscard]] std::vector<launch> wait(std::size_t count) const {
    std::unique_lock lock(mutex_);
    more_.wait(lock, [&] { return launches_.size() >= count; });
    return launches_;
  }

 private:
  mutable std::mutex mutex_;
  mutable std::condition_variable more_;
  std::vector<launch> launches_;
};

}  // namespace sluice::test
