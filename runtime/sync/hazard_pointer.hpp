// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>

namespace sluice::detail {

class timeline;

/// While it lives, the calling thread may look at the slots of a timeline, unless that has given
/// them up already: `open` says whether. One at a time for each thread.
///
/// Each thread says in a word of its own what it looks at, so that readers learn nothing of each
/// other (ThreadSanitizer would take it for an order) and share no cache line. A reader writes its
/// word and then reads the timeline's flag; who gives slots up writes the flag and then reads the
/// words: one of the two sees the other (both are sequentially consistent).
class hazard_pointer {
 public:
  hazard_pointer(const timeline& of, const std::atomic<bool>& given_up) noexcept;
  hazard_pointer(const hazard_pointer&) = delete;
  hazard_pointer& operator=(const hazard_pointer&) = delete;
  ~hazard_pointer() { word_.store(nullptr, std::memory_order_release); }

  /// Otherwise everything on the timeline has completed, and its effects are visible to this
  /// thread.
  [[nodiscard]] bool open() const noexcept { return open_; }

  /// After the flag of `of` has been set: whether some thread may still be looking at its slots.
  [[nodiscard]] static bool any(const timeline& of) noexcept;

 private:
  std::atomic<const timeline*>& word_;
  bool open_;
};

}  // namespace sluice::detail
