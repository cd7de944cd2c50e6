// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sluice/export.hpp>

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <optional>
#include <vector>

namespace sluice::detail {

/// Chooses the lane of each message to an actor with several lanes. Thread-safe.
///
/// Messages of one sender go to one lane, so that their order is that of the lane. A sender moves
/// to another lane only if each of its messages has left the queue of the old one: the launch
/// recorder orders what follows behind launches. Then it gets the lane with the fewest requests in
/// front of it, but keeps its own one while nothing waits there.
class SLUICE_EXPORT lane_choice {
 public:
  /// @throws std::bad_alloc if there is no memory
  explicit lane_choice(std::size_t lanes);

  /// Returns `pass_on(lane)` with the lane of the next message of a sender. Calls for one sender
  /// come one after the other, so the messages arrive in this order.
  template <class PassOn>
  auto route(std::uint64_t sender, const PassOn& pass_on) {
    auto& from = slots_[slot_of(sender)];
    const std::lock_guard lock(from.mutex);
    if (!from.lane || may_move(from)) from.lane = best(from.lane);
    // Before the message is on its way: a lane that has taken fewer is not empty.
    from.last = of_lanes_[*from.lane].routed.fetch_add(1, std::memory_order_relaxed) + 1;
    return pass_on(*from.lane);
  }

  /// Notes that a lane has taken one of its messages. Only the thread of the lane calls it.
  void note_taken(std::size_t lane) noexcept {
    auto& of = of_lanes_[lane].taken;
    of.store(of.load(std::memory_order_relaxed) + 1, std::memory_order_release);
  }
  /// Notes how many requests wait in the queue of a lane. Only the thread of the lane calls it.
  void note_waiting(std::size_t lane, std::size_t requests) noexcept;

 private:
  /// What the threads write is on different cache lines.
  struct lane_state {
    alignas(64) std::atomic<std::uint64_t> routed{0};
    alignas(64) std::atomic<std::uint64_t> taken{0};
    std::atomic<std::uint64_t> waiting{0};
    alignas(64) std::atomic<std::uint64_t> done{0};  // of `routed`: these wait no more
  };
  /// The senders with one hash.
  struct alignas(64) slot {
    std::mutex mutex;
    std::optional<std::size_t> lane;
    std::uint64_t last = 0;  // of `routed` of the lane
  };
  static constexpr std::size_t slot_bits = 8;

  [[nodiscard]] static std::size_t slot_of(std::uint64_t sender) noexcept {
    return (sender * 0x9e3779b97f4a7c15U) >> (64 - slot_bits);
  }
  /// The requests in front of a lane.
  [[nodiscard]] static std::uint64_t load_of(const lane_state& lane) noexcept;
  [[nodiscard]] bool may_move(const slot& of) const noexcept {
    return of_lanes_[*of.lane].done.load(std::memory_order_acquire) >= of.last;
  }
  /// The lane with the smallest load: `mine` if nothing waits there, otherwise the next in turn.
  [[nodiscard]] std::size_t best(std::optional<std::size_t> mine) noexcept;

  std::vector<lane_state> of_lanes_;
  std::array<slot, std::size_t{1} << slot_bits> slots_;
  std::atomic<std::size_t> next_{0};
};

}  // namespace sluice::detail
