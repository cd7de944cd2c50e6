// SPDX-License-Identifier: Apache-2.0
#include <sluice/operations/lane_choice.hpp>

#include <limits>
#include <utility>

namespace sluice::detail {

lane_choice::lane_choice(std::size_t lanes, std::size_t high) : of_lanes_(lanes), high_(high) {}

void lane_choice::lane::publish(bool awake) noexcept {
  auto& own = of_->of_lanes_[which_];
  for (; changes_ != 0; --changes_) {
    const std::size_t at = changed_[changes_ - 1];
    slots_[at].changed = false;
    if (slots_[at].waiting != 0) continue;
    own.slots[at].store(slots_[at].handled, std::memory_order_release);
  }
  own.waiting.store(waiting_, std::memory_order_relaxed);
  own.handled.store(handled_, std::memory_order_release);
  own.awake.store(awake, std::memory_order_relaxed);
}

std::uint64_t lane_choice::load_of(const lane_state& of) noexcept {
  const auto handled = of.handled.load(std::memory_order_acquire);  // before `routed`
  return of.routed.load(std::memory_order_relaxed) - handled +
         of.waiting.load(std::memory_order_relaxed);
}

lane_choice::range lane_choice::lanes_for(request_priority priority) const noexcept {
  const auto others = of_lanes_.size() - high_;
  if (high_ != 0 && priority == request_priority::high) return {others, high_};
  return {0, others};
}

void lane_choice::choose(slot& from, std::size_t which, range among) noexcept {
  const auto handled = [&] {
    return of_lanes_[*from.lane].slots[which].load(std::memory_order_acquire);
  };
  if (from.lane && handled() != from.routed) return;
  const bool is_among =
      from.lane && *from.lane >= among.first && *from.lane - among.first < among.count;
  const auto to = best(is_among ? from.lane : std::nullopt, among);
  if (to == from.lane) return;
  from.lane = to;
  from.routed = handled();  // all that were routed there before
}

std::size_t lane_choice::best(std::optional<std::size_t> mine, range among) noexcept {
  const auto is_awake = [&](std::size_t at) {
    return of_lanes_[at].awake.load(std::memory_order_relaxed);
  };
  const bool mine_is_idle = mine && load_of(of_lanes_[*mine]) == 0;
  if (mine_is_idle && is_awake(*mine)) return *mine;
  const auto begin = next_.fetch_add(1, std::memory_order_relaxed);
  std::size_t found = among.first;
  auto least = std::numeric_limits<std::uint64_t>::max();
  for (std::size_t i = 0; i < among.count; ++i) {
    const auto at = among.first + (begin + i) % among.count;
    const auto load = load_of(of_lanes_[at]);
    if (load == 0 && is_awake(at)) return at;
    if (load >= least) continue;
    found = at;
    least = load;
  }
  return mine_is_idle ? *mine : found;
}

}  // namespace sluice::detail
