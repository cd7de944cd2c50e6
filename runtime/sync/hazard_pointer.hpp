// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>

namespace sluice::detail {

class timeline;

/// A hazard pointer: keeps the event slots of one timeline from being freed while the calling
/// thread reads them. A thread holds at most one at a time.
///
///     const hazard_pointer reading(source, source.slots_given_up_);
///     if (reading.open()) device.wait(native, source.slot_of(ticket).event, ticket);
///
/// The reader publishes the timeline in a word of its own, then checks the flag of the timeline.
/// The reclaimer sets the flag, then scans all words. Both sides are sequentially consistent, so
/// the reader sees the flag or the reclaimer sees the word. Readers share no cache line and do not
/// synchronize with each other, because ThreadSanitizer would take that for an order of their work.
/// See docs/concepts/timelines_and_hazards.md.
class hazard_pointer {
 public:
  hazard_pointer(const timeline& owner, const std::atomic<bool>& given_up) noexcept;
  hazard_pointer(const hazard_pointer&) = delete;
  hazard_pointer& operator=(const hazard_pointer&) = delete;
  ~hazard_pointer() { word_.store(nullptr, std::memory_order_release); }

  /// Whether the slots may be read. If false, everything on the timeline has completed, and its
  /// effects are visible to the calling thread.
  [[nodiscard]] bool open() const noexcept { return open_; }

  /// Whether any thread may still read the slots of `owner`. The caller has set the flag of `owner`
  /// before.
  [[nodiscard]] static bool any(const timeline& owner) noexcept;

 private:
  std::atomic<const timeline*>& word_;
  bool open_;
};

}  // namespace sluice::detail
