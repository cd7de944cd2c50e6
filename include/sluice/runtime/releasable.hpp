#pragma once

namespace sluice {

namespace detail {
class release_list;
}

/// Something whose destructor drops owners of device memory. Once its launch has completed it is
/// put on the runtime's release list and destroyed where no reply waits for it: by the completion
/// thread when it has nothing else to do, or by whoever calls `device_runtime::reap_pending` or
/// `bytes_outstanding`, is short of memory, copies between runtimes or ends the runtime. Its
/// destructor must not wait for a lock under which somebody does that.
class releasable {
 public:
  releasable() = default;
  releasable(const releasable&) = delete;
  releasable& operator=(const releasable&) = delete;
  virtual ~releasable() = default;

 private:
  friend class detail::release_list;
  releasable* next_released_ = nullptr;
};

}  // namespace sluice
