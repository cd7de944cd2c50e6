// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sluice/runtime/memory_resource.hpp>

#include <cstddef>
#include <mutex>
#include <set>

namespace sluice::detail {

/// The memory that one charged resource has freed into the pool of its device.
///
/// The pool may keep that memory, so it stays charged until a trim has returned it to the system,
/// or until an allocation takes it over. Thread-safe.
///
/// Two properties of a device's pool make this exact. It takes no memory from the system while it
/// has a free block of the requested size that the allocating stream may use. Among such blocks it
/// prefers one freed on that stream. An allocation that takes memory over here therefore does not
/// enlarge the pool. If another runtime on the device took the block first, that runtime was
/// charged for it.
class pooled_memory {
 public:
  explicit pooled_memory(resource_context& context) noexcept : context_(context) {}

  /// A free, and the point at which the device reaches it. The empty point means that it has been
  /// reached.
  struct entry {
    std::size_t bytes = 0;
    timeline_point point{};
    [[nodiscard]] bool operator<(const entry& other) const noexcept;
  };
  using entries = std::multiset<entry>;
  using free = entries::node_type;

  /// Makes the argument of `add`.
  /// @throws std::bad_alloc
  [[nodiscard]] static free make(std::size_t bytes);
  /// Notes that memory has been freed and that the device reaches the free at `point`. Also takes
  /// back an unneeded result of `take_for`.
  void add(free freed, timeline_point point) noexcept;

  /// Removes memory of this size that an allocation on `stream` will reuse, with its charge. Empty
  /// if there is none.
  [[nodiscard]] free take_for(std::size_t bytes, stream_id stream) noexcept;

  /// Trims the device's pool and discharges the frees that the device has reached. Returns the
  /// bytes that the device reports as returned.
  std::size_t release() noexcept;
  /// Trims the device's pool and discharges `bytes` bytes that have been freed and are not noted
  /// here.
  std::size_t release(std::size_t bytes) noexcept;

 private:
  resource_context& context_;
  std::mutex mutex_;  // never held during a wait for work
  entries entries_;
};

}  // namespace sluice::detail
