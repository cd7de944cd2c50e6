// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sluice/runtime/memory_resource.hpp>

#include <cstddef>
#include <mutex>
#include <set>

namespace sluice::detail {

/// What one charged resource has freed into its device's pool. The pool may keep that memory, so
/// it stays charged until a trim has returned it to the system or an allocation takes it over.
/// Thread-safe.
///
/// It counts on two things: a device's pool takes no memory from the system while it has a free
/// block of the very size that is asked for which the asking stream may use; and of these it
/// prefers one that was freed on that stream. So an allocation that takes memory over here makes
/// the pool no larger. Where another runtime on the device took the block first, that one was
/// charged for it.
class pooled_memory {
 public:
  explicit pooled_memory(resource_context& context) noexcept : context_(context) {}

  /// A free, and the point at which the device reaches it. The empty point: it was reached at once.
  struct entry {
    std::size_t bytes = 0;
    timeline_point reached{};
    [[nodiscard]] bool operator<(const entry& other) const noexcept;
  };
  using entries = std::multiset<entry>;
  using free = entries::node_type;

  /// What `add` takes. @throws std::bad_alloc
  [[nodiscard]] static free make(std::size_t bytes);
  /// Memory has been freed, and the device reaches that at `reached`. Also for what `take_for` took
  /// out and did not need.
  void add(free freed, timeline_point reached) noexcept;

  /// Takes out memory of that size which an allocation on `stream` is going to reuse, and with it
  /// its charge. Empty where there is none.
  [[nodiscard]] free take_for(std::size_t bytes, stream_id stream) noexcept;

  /// Trims the device's pool and discharges what the device has reached. Returns how many bytes
  /// the device says that it gave up.
  std::size_t release() noexcept;
  /// Trims the device's pool and discharges these bytes, which have been freed and are not noted.
  std::size_t release(std::size_t bytes) noexcept;

 private:
  resource_context& context_;
  std::mutex mutex_;  // never held while anybody waits for work
  entries kept_;
};

}  // namespace sluice::detail
