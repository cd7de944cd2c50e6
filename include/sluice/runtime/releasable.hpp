// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sluice/export.hpp>

namespace sluice {

namespace detail {
class release_list;
}

/// Base class of an object whose destructor releases what a completed launch owned.
///
/// The runtime pushes the object onto its release list and destroys it later: on the completion
/// thread between two replies, or on a thread that drains the list. `device_runtime::reap_pending`,
/// `bytes_outstanding`, allocations that are short of memory, copies between runtimes and the end
/// of the runtime drain it. The destructor must not wait for a lock that such a thread may hold.
class SLUICE_EXPORT releasable {
 public:
  releasable() = default;
  releasable(const releasable&) = delete;
  releasable& operator=(const releasable&) = delete;
  virtual ~releasable() = default;

 private:
  friend class detail::release_list;

  /// Destroys the object. The thread that drains the list calls it once for each push.
  virtual void release() noexcept { delete this; }

  releasable* next_released_ = nullptr;
};

}  // namespace sluice
