// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace sluice {

namespace detail {
class release_list;
}

/// Base class of an object whose destructor releases what a completed launch owned.
///
/// The runtime puts the object on its release list and destroys it later: on the completion thread
/// between two replies, or on a thread that calls `device_runtime::reap_pending` or
/// `bytes_outstanding`, runs out of memory, copies between runtimes or ends the runtime. The
/// destructor must not wait for a lock that such a thread may hold.
class releasable {
 public:
  releasable() = default;
  releasable(const releasable&) = delete;
  releasable& operator=(const releasable&) = delete;
  virtual ~releasable() = default;

 private:
  friend class detail::release_list;

  /// Called once for each push, by the thread that drains the list.
  virtual void release() noexcept { delete this; }

  releasable* next_released_ = nullptr;
};

}  // namespace sluice
