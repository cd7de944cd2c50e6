// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sluice/export.hpp>

#include <cstdint>
#include <mutex>

namespace sluice {
class device;
}

namespace sluice::detail {

/// The list of all devices that `open_device` and `open_host_device` have opened and that have not
/// been closed, for a fork and for the exit of the process. Thread-safe.
class open_devices {
 public:
  [[nodiscard]] static open_devices& instance() noexcept;

  /// Adds a device after its construction, because the exit of the process calls its virtual
  /// functions. From that exit on, a device that is added is lost at once.
  void add(device& device) noexcept;
  /// Removes a device before its destruction.
  void remove(device& closed) noexcept;

  /// Declares every device lost, so that nothing new begins, and waits for running tasks. A library
  /// that is unloaded during a call can hang or crash. Called at the exit of the process, before
  /// the destructors of the libraries' static objects (see `library_call`). The first call counts.
  void end() noexcept;
  /// `end`, then keeps the threads of sluice out of the driver, and waits for their calls. The
  /// driver's static objects are destroyed afterwards.
  void end_driver_calls() noexcept;

  /// The handlers of `pthread_atfork`.
  void before_fork() noexcept;
  void after_fork_in_parent() noexcept;
  void after_fork_in_child() noexcept;

 private:
  std::mutex mutex_;
  device* first_ = nullptr;
};

/// Whether `open_devices::end` has been called.
[[nodiscard]] SLUICE_EXPORT bool process_ends() noexcept;
/// Whether `open_devices::end_driver_calls` has been called: no thread may call the driver any
/// more.
[[nodiscard]] bool driver_ends() noexcept;

/// The number of forks between this process and the one that loaded the library.
[[nodiscard]] std::uint32_t fork_depth() noexcept;

/// Keeps an object of the parent reachable in a child of `fork`. The object cannot be destroyed
/// without the parent's threads.
SLUICE_EXPORT void leave_to_parent(const void* object) noexcept;

}  // namespace sluice::detail
