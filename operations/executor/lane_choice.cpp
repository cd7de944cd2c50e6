// SPDX-License-Identifier: Apache-2.0
#include "operations/executor/known_plans.hpp"

#include <sluice/operations/lane_choice.hpp>

#include <algorithm>
#include <limits>
#include <utility>

namespace sluice::detail {
namespace {

/// So many messages and requests of others in front of the best lane are a reason for another one.
constexpr std::uint64_t crowd = 4;
/// The pressure at which a lane is opened, and that after one could not be.
constexpr int pressure_for_a_lane = 32;
constexpr int pressure_after_failure = -(1 << 16);
/// Of one lane: a change of the sender while others wait, a message behind which none waits, and
/// the pressure from which on the lane is busy.
constexpr int pressure_of_change = 8;
constexpr int relief_of_pause = 4;
constexpr int pressure_of_busy_lane = 256;
/// A device is behind if so many launches of a lane, or of two lanes that take turns, are
/// unfinished while no message waits, at so many messages more than it was not. A sender then takes
/// turns for so many messages.
constexpr std::size_t launches_of_backlog = 3;
constexpr int full_backlog = 32;
constexpr int relief_of_backlog = 2;
constexpr int messages_of_turns = 16;
/// A busy lane asks for another one after each so many messages.
constexpr std::uint64_t messages_of_a_measurement = 64;
/// With so many messages and requests in front of a home, batches are large. Further senders gain
/// more from another lane.
constexpr std::uint64_t full_home = 64;
/// The bits of a home that state its lane. The others are those of the hash of the program.
constexpr std::uint64_t lane_of_home = 0xffff;

[[nodiscard]] std::uint64_t hash_of(const void* program) noexcept {
  return reinterpret_cast<std::uintptr_t>(program) * 0x9e3779b97f4a7c15U;
}

}  // namespace

lane_choice::lane_choice(std::size_t lanes, std::size_t high, std::size_t open)
    : lane_states_(lanes),
      high_(high),
      open_(std::clamp<std::size_t>(open, 1, lanes)),
      plans_(std::make_unique<operations::known_plans>(open_ != lanes)) {
  for (std::size_t i = 0; i < open_; ++i) lane_states_[i].standing = standing::open;
  max_on_demand_ = lanes - open_;
}
lane_choice::~lane_choice() = default;

bool lane_choice::prepare(std::size_t number) noexcept {
  auto expected = standing::wanted;
  return lane_states_[number].standing.compare_exchange_strong(expected, standing::prepared);
}

void lane_choice::open(std::size_t number) noexcept {
  auto expected = standing::prepared;
  auto& state = lane_states_[number];
  state.unfinished.store(0, std::memory_order_relaxed);
  if (!state.standing.compare_exchange_strong(expected, standing::open)) return;
  if (is_one_too_many()) return close(number);
  pressure_.store(0, std::memory_order_relaxed);
}

void lane_choice::close(std::size_t number, bool failed) noexcept {
  lane_states_[number].standing.store(standing::closed);
  if (failed) pressure_.store(pressure_after_failure, std::memory_order_relaxed);
}

void lane_choice::limit_on_demand(std::size_t limit) noexcept {
  if (max_on_demand_.exchange(limit) == limit) return;
  // Ordinary lanes first, then those for high priority.
  for (const auto end : {lane_states_.size() - high_, lane_states_.size()}) {
    for (auto i = end; i-- > open_ && is_one_too_many();) {
      if (standing_of(i) != standing::closed) close(i);
    }
  }
}

std::size_t lane_choice::on_demand_now() const noexcept {
  std::size_t count = 0;
  for (auto i = open_; i < lane_states_.size(); ++i) {
    if (lane_states_[i].standing.load() != standing::closed) ++count;
  }
  return count;
}

void lane_choice::lane::note_home(const void* program) noexcept {
  at_home_until_ = handled_ + messages_of_a_measurement;
  choice_->settle(program, number_);
}

void lane_choice::lane::measure() noexcept {
  if (handled_ == measured_) return;
  measured_ = handled_;
  auto& state = choice_->lane_states_[number_];
  // A client that sends one request after the other may have sent the next one already.
  const bool others_wait = state.routed.load(std::memory_order_relaxed) - handled_ + waiting_ > 1;
  auto pressure = state.pressure.load(std::memory_order_relaxed);
  if (!others_wait) {
    pressure = std::max(0, pressure - relief_of_pause);
  } else if (change_of_sender_ && handled_ >= at_home_until_) {
    pressure = std::min(2 * pressure_of_busy_lane, pressure + pressure_of_change);
  }
  state.pressure.store(pressure, std::memory_order_relaxed);
  if (handled_ % messages_of_a_measurement != 0) return;
  const auto candidates = choice_->lanes_like(number_);
  const bool is_busy = pressure >= pressure_of_busy_lane;
  // No lane of high priority is opened for the device, because it may close an ordinary one.
  const bool overlaps = device_ == device_work::heavy && candidates.first == 0;
  if ((is_busy && !choice_->relief_for(number_, candidates)) ||
      (overlaps && !choice_->has_lane_beside(number_, candidates))) {
    choice_->want_lane(candidates);
  }
}

void lane_choice::lane::note_device(std::size_t unfinished, std::uint64_t dependent) noexcept {
  if (std::exchange(noted_, handled_) == handled_) return;
  const bool is_dependent = std::exchange(dependent_, dependent) != dependent;
  if (is_dependent || change_of_sender_) {
    backlog_ = 0;
    device_ = is_dependent ? device_work::dependent : device_work::light;
    return;
  }
  auto& state = choice_->lane_states_[number_];
  state.unfinished.store(unfinished, std::memory_order_relaxed);
  if (const auto turns_of = state.turns_of.load(std::memory_order_relaxed); turns_of != 0) {
    // The lane of the message before.
    const auto candidates = choice_->lanes_like(number_);
    for (auto i = candidates.first; i < candidates.first + candidates.count; ++i) {
      const auto& other = choice_->lane_states_[i];
      if (i != number_ && other.turns_of.load(std::memory_order_relaxed) == turns_of) {
        unfinished += other.unfinished.load(std::memory_order_relaxed);
      }
    }
  }
  backlog_ = unfinished >= launches_of_backlog ? std::min(full_backlog, backlog_ + 1)
                                               : std::max(0, backlog_ - relief_of_backlog);
  if (backlog_ == full_backlog) device_ = device_work::heavy;
  if (backlog_ < full_backlog / 2) device_ = device_work::light;
}

void lane_choice::lane::publish(bool awake) noexcept {
  if (choice_->open_ != choice_->lane_states_.size()) measure();
  auto& state = choice_->lane_states_[number_];
  // Before a sender learns that its last message has been handled.
  state.device.store(device_, std::memory_order_relaxed);
  for (; changes_ != 0; --changes_) {
    const std::size_t slot = changed_[changes_ - 1];
    slots_[slot].changed = false;
    if (slots_[slot].waiting != 0) continue;
    state.slots[slot].store(slots_[slot].handled, std::memory_order_release);
  }
  state.waiting.store(waiting_, std::memory_order_relaxed);
  state.handled.store(handled_, std::memory_order_release);
  state.awake.store(awake, std::memory_order_relaxed);
}

std::uint64_t lane_choice::load_of(const lane_state& state) noexcept {
  const auto handled = state.handled.load(std::memory_order_acquire);  // before `routed`
  return state.routed.load(std::memory_order_relaxed) - handled +
         state.waiting.load(std::memory_order_relaxed);
}

lane_choice::range lane_choice::lanes_for(request_priority priority) const noexcept {
  const auto others = lane_states_.size() - high_;
  if (high_ != 0 && priority == request_priority::high) return {others, high_};
  return {0, others};
}

bool lane_choice::may_take(std::size_t number) const noexcept {
  if (standing_of(number) != standing::open) return false;
  const bool learns = on_demand(number) || (open_ == 1 && lane_states_.size() - high_ != 1);
  return !learns || lane_states_[number].plans.load(std::memory_order_acquire) == plans_->count();
}

lane_choice::range lane_choice::lanes_like(std::size_t number) const noexcept {
  const auto others = lane_states_.size() - high_;
  return number < others ? range{0, others} : range{others, high_};
}

bool lane_choice::is_busy(std::size_t number) const noexcept {
  return lane_states_[number].pressure.load(std::memory_order_relaxed) >= pressure_of_busy_lane;
}

std::optional<std::size_t> lane_choice::relief_for(std::size_t number,
                                                   range candidates) const noexcept {
  std::optional<std::size_t> found;
  auto least = std::numeric_limits<std::uint64_t>::max();
  for (auto i = candidates.first; i < candidates.first + candidates.count; ++i) {
    if (i == number || is_busy(i) || !may_take(i)) continue;
    const auto load = load_of(lane_states_[i]);
    if (load >= least) continue;
    found = i;
    least = load;
  }
  return found;
}

std::optional<std::size_t> lane_choice::lane_beside(slot& sender_slot, std::size_t index,
                                                    range candidates) noexcept {
  const auto number = *sender_slot.lane;
  auto& state = lane_states_[number];
  const auto device = state.device.load(std::memory_order_relaxed);
  if (device == device_work::heavy) sender_slot.turns = messages_of_turns;
  if (device == device_work::dependent) sender_slot.turns = 0;
  const auto own_turns = index + 1;
  const auto look_at = [&](std::size_t i) {
    const auto routed = lane_states_[i].routed.load(std::memory_order_relaxed);
    const bool is_unused =
        std::exchange(sender_slot.beside, i) == i && sender_slot.routed_beside == routed;
    sender_slot.routed_beside = routed;
    return is_unused;
  };
  if (sender_slot.turns != 0) {
    --sender_slot.turns;
    const auto old_beside = sender_slot.beside;
    for (std::size_t k = 0; k < candidates.count; ++k) {
      const auto i = candidates.first + (old_beside + k) % candidates.count;
      auto& other = lane_states_[i];
      if (i == number || !may_take(i) || load_of(other) != 0) continue;
      // It is worth waking a thread only while the device is behind.
      const bool is_behind = device == device_work::heavy ||
                             other.device.load(std::memory_order_relaxed) == device_work::heavy;
      if (!is_behind && !other.awake.load(std::memory_order_relaxed)) continue;
      // Another lane is looked at again with the next message.
      if (!look_at(i)) {
        if (i != old_beside) break;
        continue;
      }
      state.turns_of.store(own_turns, std::memory_order_relaxed);
      other.turns_of.store(own_turns, std::memory_order_relaxed);
      (void)look_at(number);
      return i;
    }
  }
  if (state.turns_of.load(std::memory_order_relaxed) == own_turns) {
    state.turns_of.store(0, std::memory_order_relaxed);
  }
  return std::nullopt;
}

bool lane_choice::has_lane_beside(std::size_t number, range candidates) const noexcept {
  for (auto i = candidates.first; i < candidates.first + candidates.count; ++i) {
    if (i != number && standing_of(i) != standing::closed) return true;
  }
  return false;
}

void lane_choice::want_lane(range candidates) noexcept {
  if (!on_wanted_) return;
  const auto limit = max_on_demand_.load(std::memory_order_relaxed);
  const bool is_full = on_demand_now() >= limit;
  if (is_full) {
    // A lane for high priority takes the place of an ordinary one, if there is one.
    if (candidates.first == 0 || limit == 0) return;
    bool any = false;
    for (auto i = open_; i < candidates.first; ++i) any = any || standing_of(i) != standing::closed;
    if (!any) return;
  }
  if (pressure_.load(std::memory_order_relaxed) < 0) {
    pressure_.fetch_add(1, std::memory_order_relaxed);  // one could not be opened not long ago
    return;
  }
  for (std::size_t i = 0; i < candidates.count; ++i) {
    auto& state = lane_states_[candidates.first + i];
    auto expected = state.standing.load(std::memory_order_relaxed);
    if (expected == standing::open) continue;
    if (expected != standing::closed) return;
    if (!state.standing.compare_exchange_strong(expected, standing::wanted)) return;
    for (auto other = candidates.first; is_full && other-- > open_ && is_one_too_many();) {
      if (standing_of(other) != standing::closed) close(other);
    }
    on_wanted_();
    return;
  }
}

void lane_choice::note_load(std::uint64_t load, range candidates) noexcept {
  auto now = pressure_.load(std::memory_order_relaxed);
  if (load < crowd) {
    if (now > 0) pressure_.store(now - 1, std::memory_order_relaxed);
  } else if (now < pressure_for_a_lane) {
    pressure_.store(now + 1, std::memory_order_relaxed);
  } else {
    want_lane(candidates);
  }
}

void lane_choice::settle(const void* program, std::size_t number) noexcept {
  if (lanes_like(number).first != 0) return;
  if (const auto home = home_of(program); home && standing_of(*home) == standing::open) return;
  const auto hash = hash_of(program);
  homes_[hash >> (64 - home_bits)].store((hash & ~lane_of_home) | (number + 1),
                                         std::memory_order_relaxed);
}

std::optional<std::size_t> lane_choice::home_of(const void* program) const noexcept {
  if (program == nullptr) return std::nullopt;
  const auto hash = hash_of(program);
  const auto home = homes_[hash >> (64 - home_bits)].load(std::memory_order_relaxed);
  if (((home ^ hash) & ~lane_of_home) != 0 || (home & lane_of_home) == 0) return std::nullopt;
  return (home & lane_of_home) - 1;
}

void lane_choice::choose(slot& sender_slot, std::size_t index, range candidates,
                         const void* program) noexcept {
  const auto handled = [&] {
    return lane_states_[*sender_slot.lane].slots[index].load(std::memory_order_acquire);
  };
  if (sender_slot.lane && handled() != sender_slot.routed) return;
  if (candidates.first != 0) {
    // The other lanes take messages of high priority while none for them is open.
    bool has_open_lane = false;
    for (std::size_t i = 0; i < candidates.count; ++i)
      has_open_lane = has_open_lane || may_take(candidates.first + i);
    if (!has_open_lane) {
      want_lane(candidates);
      const range others{0, candidates.first};
      // Behind a crowd it would wait longer than for the lane and the plan.
      const auto old_lane = sender_slot.lane && *sender_slot.lane < candidates.first
                                ? sender_slot.lane
                                : std::nullopt;
      const bool will_open = standing_of(candidates.first) != standing::closed;
      if (will_open && load_of(lane_states_[best_lane(old_lane, others)]) >= crowd) {
        return move(sender_slot, index, candidates.first);
      }
      candidates = others;
    }
  }
  if (const auto home = home_of(program); home && *home - candidates.first < candidates.count &&
                                          may_take(*home) &&
                                          load_of(lane_states_[*home]) < full_home) {
    auto& turns_of = lane_states_[sender_slot.lane.value_or(*home)].turns_of;
    if (turns_of.load(std::memory_order_relaxed) == index + 1) {
      turns_of.store(0, std::memory_order_relaxed);
    }
    return move(sender_slot, index, *home);
  }
  const bool is_candidate = sender_slot.lane && *sender_slot.lane >= candidates.first &&
                            *sender_slot.lane - candidates.first < candidates.count &&
                            standing_of(*sender_slot.lane) == standing::open;
  if (is_candidate && is_busy(*sender_slot.lane)) {
    if (const auto relief = relief_for(*sender_slot.lane, candidates)) {
      // The lane is measured again without this sender.
      lane_states_[*sender_slot.lane].pressure.fetch_sub(pressure_of_busy_lane,
                                                         std::memory_order_relaxed);
      return move(sender_slot, index, *relief);
    }
  }
  if (is_candidate) {
    if (const auto beside = lane_beside(sender_slot, index, candidates)) {
      return move(sender_slot, index, *beside);
    }
  }
  move(sender_slot, index, best_lane(is_candidate ? sender_slot.lane : std::nullopt, candidates));
}

void lane_choice::move(slot& sender_slot, std::size_t index, std::size_t target) noexcept {
  if (sender_slot.lane == target) return;
  sender_slot.lane = target;
  // All that were routed there before.
  sender_slot.routed = lane_states_[target].slots[index].load(std::memory_order_acquire);
}

std::size_t lane_choice::best_lane(std::optional<std::size_t> old_lane, range candidates) noexcept {
  const auto is_awake = [&](std::size_t number) {
    return lane_states_[number].awake.load(std::memory_order_relaxed);
  };
  const auto old_load = old_lane ? load_of(lane_states_[*old_lane]) : 0;
  const bool old_lane_is_idle = old_lane && old_load == 0;
  if (old_lane_is_idle && is_awake(*old_lane)) return *old_lane;
  const auto begin = next_.fetch_add(1, std::memory_order_relaxed);
  std::size_t found = old_lane.value_or(candidates.first);
  auto least = old_lane ? old_load : std::numeric_limits<std::uint64_t>::max();
  for (std::size_t i = 0; i < candidates.count; ++i) {
    const auto number = candidates.first + (begin + i) % candidates.count;
    if (number == old_lane || !may_take(number)) continue;
    const auto load = load_of(lane_states_[number]);
    if (load == 0 && is_awake(number)) return number;
    if (load >= least) continue;
    found = number;
    least = load;
  }
  // Without a lane that has all plans, another one would lack them, too.
  const bool has_load = least != std::numeric_limits<std::uint64_t>::max();
  if (has_load && open_ != lane_states_.size()) note_load(least, candidates);
  return old_lane_is_idle ? *old_lane : found;
}

}  // namespace sluice::detail
