// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sluice/export.hpp>
#include <sluice/operations/request_options.hpp>

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <utility>
#include <vector>

namespace sluice::detail {

/// Chooses the lane of each message to an actor with several lanes. Thread-safe.
///
/// Messages of one sender go to one lane, so that their order is that of the lane. A sender moves
/// to another lane only if none of its messages or requests waits in front of the old one: the
/// launch recorder orders what follows behind launches. It moves if its lane is busy or asleep and
/// another one is idle and awake, or if its lane is busy and another one has fewer requests in
/// front of it.
///
/// The last lanes may be for messages of high priority only, and then these go nowhere else. A
/// message follows those of its sender that wait, whatever its priority.
class SLUICE_EXPORT lane_choice {
  /// Senders with one hash share a slot. There are so many that a sender rarely shares one with a
  /// sender whose requests wait.
  static constexpr std::size_t slot_bits = 12;
  static constexpr std::size_t slot_count = std::size_t{1} << slot_bits;
  [[nodiscard]] static std::size_t slot_of(request_sender sender) noexcept {
    return (sender.id * 0x9e3779b97f4a7c15U) >> (64 - slot_bits);
  }

 public:
  /// The last `high` lanes are for messages of high priority only; 0: all lanes are for all.
  /// @throws std::bad_alloc if there is no memory
  explicit lane_choice(std::size_t lanes, std::size_t high = 0);

  /// Returns `pass_on(lane)` with the lane of the next message of a sender. Calls for one sender
  /// come one after the other, so the messages arrive in this order. If `pass_on` throws, the
  /// message has not been sent.
  template <class PassOn>
  auto route(request_sender sender, request_priority priority, const PassOn& pass_on) {
    const auto which = slot_of(sender);
    auto& from = slots_[which];
    const std::lock_guard lock(from.mutex);
    choose(from, which, lanes_for(priority));
    ++from.routed;
    // Before the message is on its way: a lane that has taken fewer is not idle.
    auto& to = of_lanes_[*from.lane].routed;
    to.fetch_add(1, std::memory_order_relaxed);
    try {
      return pass_on(*from.lane);
    } catch (...) {
      to.fetch_sub(1, std::memory_order_relaxed);
      --from.routed;
      throw;
    }
  }

  /// What one lane tells the choice. Only the thread of the lane calls its functions.
  class SLUICE_EXPORT lane {
   public:
    lane(std::shared_ptr<lane_choice> of, std::size_t which) : of_(std::move(of)), which_(which) {}

    /// A request has been added to the queue of the lane, or has left it.
    ///@{
    void note_added(request_sender sender) noexcept {
      ++waiting_;
      ++slots_[slot_of(sender)].waiting;
    }
    void note_left(request_sender sender) noexcept {
      --waiting_;
      const auto slot = slot_of(sender);
      --slots_[slot].waiting;
      note_change(slot);
    }
    ///@}
    /// The lane has handled a message.
    void note_handled(request_sender sender) noexcept {
      const auto slot = slot_of(sender);
      ++handled_;
      ++slots_[slot].handled;
      note_change(slot);
    }
    /// Makes what has been noted known to the senders. `awake`: whether the thread of the lane
    /// handles its next message without being woken.
    void publish(bool awake) noexcept;

   private:
    void note_change(std::size_t slot) noexcept {
      if (std::exchange(slots_[slot].changed, true)) return;
      changed_[changes_++] = static_cast<std::uint16_t>(slot);
    }

    struct of_senders {
      std::uint64_t handled = 0;
      std::uint32_t waiting = 0;
      bool changed = false;  // and in the list
    };
    const std::shared_ptr<lane_choice> of_;
    const std::size_t which_;
    std::uint64_t handled_ = 0;
    std::size_t waiting_ = 0;
    std::array<of_senders, slot_count> slots_;
    std::array<std::uint16_t, slot_count> changed_{};  // the slots that are to be published
    std::size_t changes_ = 0;
  };

 private:
  struct lane_state {
    alignas(64) std::atomic<std::uint64_t> routed{0};
    alignas(64) std::atomic<std::uint64_t> handled{0};
    std::atomic<std::uint64_t> waiting{0};
    std::atomic<bool> awake{false};
    // Of each slot, the messages up to the last one that left nothing.
    std::array<std::atomic<std::uint64_t>, slot_count> slots{};
  };
  struct alignas(64) slot {
    std::mutex mutex;
    std::optional<std::size_t> lane;
    std::uint64_t routed = 0;  // to `lane`
  };

  /// The messages and requests in front of a lane.
  [[nodiscard]] static std::uint64_t load_of(const lane_state& of) noexcept;
  /// The lanes from `first` on.
  struct range {
    std::size_t first;
    std::size_t count;
  };
  [[nodiscard]] range lanes_for(request_priority priority) const noexcept;
  void choose(slot& from, std::size_t which, range among) noexcept;
  /// The lane among those in question for a sender whose lane was `mine`.
  [[nodiscard]] std::size_t best(std::optional<std::size_t> mine, range among) noexcept;

  std::vector<lane_state> of_lanes_;
  const std::size_t high_;
  std::array<slot, slot_count> slots_;
  std::atomic<std::size_t> next_{0};
};

}  // namespace sluice::detail
