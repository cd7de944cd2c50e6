// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sluice/export.hpp>
#include <sluice/runtime/device_id.hpp>

namespace sluice::detail {

/// A call of a library on the calling thread, for example one that enqueues a launch.
///
///     const library_call running(device.id());
///     device.require_usable();
///     // call the library
///
/// The exit of the process declares all devices lost and waits for such calls, because it then
/// destroys the variables of the libraries. A call must therefore check for the loss after this
/// object has been made. Calls may be nested.
///
/// Libraries of a GPU construct static variables in their first calls, and an exit destroys these
/// before older ones. The end of the devices is therefore registered again after the 1st, 2nd, 4th,
/// 8th … call on a GPU in each thread.
class library_call {
 public:
  explicit library_call(device_id device) noexcept;
  /// A call that constructs no static variables, for example a query of an event.
  library_call() noexcept : library_call({device_kind::host, 0}) {}
  library_call(const library_call&) = delete;
  library_call& operator=(const library_call&) = delete;
  ~library_call();

  /// Whether another thread is in such a call. Ordered after all losses that the caller has
  /// declared.
  [[nodiscard]] static bool running_elsewhere() noexcept;
  /// In a child of `fork()`: drops the calls of the parent's other threads.
  static void forget_other_threads() noexcept;

 private:
  const bool of_gpu_;
};

}  // namespace sluice::detail
