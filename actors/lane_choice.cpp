// SPDX-License-Identifier: Apache-2.0
#include <sluice/actors/lane_choice.hpp>

namespace sluice::detail {

lane_choice::lane_choice(std::size_t lanes) : of_lanes_(lanes) {}

void lane_choice::note_waiting(std::size_t lane, std::size_t requests) noexcept {
  auto& of = of_lanes_[lane];
  of.waiting.store(requests, std::memory_order_relaxed);
  if (requests != 0) return;
  // Whatever has been routed has been taken, also what was on its way.
  const auto routed = of.routed.load(std::memory_order_acquire);
  if (routed == of.taken.load(std::memory_order_relaxed)) {
    of.done.store(routed, std::memory_order_release);
  }
}

std::uint64_t lane_choice::load_of(const lane_state& lane) noexcept {
  const auto taken = lane.taken.load(std::memory_order_acquire);  // before `routed`
  return lane.routed.load(std::memory_order_relaxed) - taken +
         lane.waiting.load(std::memory_order_relaxed);
}

std::size_t lane_choice::best(std::optional<std::size_t> mine) noexcept {
  if (mine && load_of(of_lanes_[*mine]) == 0) return *mine;
  const auto count = of_lanes_.size();
  const auto first = next_.fetch_add(1, std::memory_order_relaxed);
  std::size_t found = first % count;
  auto least = load_of(of_lanes_[found]);
  for (std::size_t i = 1; i < count && least != 0; ++i) {
    const auto lane = (first + i) % count;
    if (const auto load = load_of(of_lanes_[lane]); load < least) {
      found = lane;
      least = load;
    }
  }
  return found;
}

}  // namespace sluice::detail
