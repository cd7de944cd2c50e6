// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <mutex>

namespace sluice::operations {

/// Keeps captures apart from calls that synchronize the whole device, such as `cublasDestroy`: they
/// end each capture of the process with an error. Held during a capture, and during such a call. A
/// thread that captures does not wait for itself.
[[nodiscard]] inline std::unique_lock<std::recursive_mutex> capture_lock() {
  static std::recursive_mutex mutex;
  return std::unique_lock(mutex);
}

}  // namespace sluice::operations
