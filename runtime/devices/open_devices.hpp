// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <mutex>

namespace sluice {
class device;
}

namespace sluice::detail {

/// The list of all device objects in the process, for the two events that concern all of them: a
/// fork and the end of the process. Thread-safe.
class open_devices {
 public:
  [[nodiscard]] static open_devices& instance() noexcept;

  void add(device& opened) noexcept;
  void remove(device& closed) noexcept;

  /// Called when the process exits, after the destructors of younger static objects and before the
  /// libraries' own. Declares every device lost, so that nothing new begins, and waits for the
  /// tasks that are running: a library that is unloaded during a call can hang or crash.
  void end() noexcept;

  /// The handlers of `pthread_atfork`.
  void before_fork() noexcept;
  void after_fork_in_parent() noexcept;
  void after_fork_in_child() noexcept;

 private:
  std::mutex mutex_;
  device* first_ = nullptr;
};

/// Whether `open_devices::end` has been called.
[[nodiscard]] bool process_ends() noexcept;

/// How many forks lie between this process and the one that loaded the library.
[[nodiscard]] std::uint32_t fork_depth() noexcept;

/// In a child of `fork()`: keeps an object of the parent's, which cannot be destroyed without the
/// parent's threads, reachable until the child ends.
void leave_to_parent(const void* object) noexcept;

}  // namespace sluice::detail
