// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "service/base/file_descriptor.hpp"

#include <atomic>

namespace sluice::service {

/// Wakes a thread that polls a descriptor. Calls between two looks of the thread cost one system
/// call together.
class wake_event {
 public:
  /// @throws std::system_error if the kernel refuses
  wake_event();

  /// Makes the descriptor readable. Any thread may call it.
  void signal() noexcept;
  /// Whether `signal` has been called since the last call. What was done before those calls is
  /// visible afterwards. The thread that polls calls it.
  [[nodiscard]] bool take() noexcept;
  /// Whether `take` would return true. Orders nothing.
  [[nodiscard]] bool is_signaled() const noexcept {
    return is_signaled_.load(std::memory_order_relaxed);
  }
  /// Readable after `signal`, perhaps also once more after `take`.
  [[nodiscard]] int descriptor() const noexcept { return event_.get(); }
  /// Makes the descriptor unreadable, after it was readable. `take` comes after it.
  void clear() noexcept;

 private:
  const file_descriptor event_;
  std::atomic<bool> is_signaled_{false};
};

}  // namespace sluice::service
