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
/// A busy lane asks for another one after each so many messages.
constexpr std::uint64_t messages_of_a_measurement = 64;

}  // namespace

lane_choice::lane_choice(std::size_t lanes, std::size_t high, std::size_t open)
    : of_lanes_(lanes),
      high_(high),
      open_(std::clamp<std::size_t>(open, 1, lanes)),
      plans_(std::make_unique<operations::known_plans>(open_ != lanes)) {
  for (std::size_t i = 0; i < open_; ++i) of_lanes_[i].standing = standing::open;
  most_on_demand_ = lanes - open_;
}
lane_choice::~lane_choice() = default;

bool lane_choice::prepare(std::size_t number) noexcept {
  auto expected = standing::wanted;
  return of_lanes_[number].standing.compare_exchange_strong(expected, standing::prepared);
}

void lane_choice::open(std::size_t number) noexcept {
  auto expected = standing::prepared;
  if (!of_lanes_[number].standing.compare_exchange_strong(expected, standing::open)) return;
  if (is_one_too_many()) return close(number);
  pressure_.store(0, std::memory_order_relaxed);
}

void lane_choice::close(std::size_t number, bool failed) noexcept {
  of_lanes_[number].standing.store(standing::closed);
  if (failed) pressure_.store(pressure_after_failure, std::memory_order_relaxed);
}

void lane_choice::limit_on_demand(std::size_t most) noexcept {
  if (most_on_demand_.exchange(most) == most) return;
  // Ordinary lanes first, then those for high priority.
  for (const auto end : {of_lanes_.size() - high_, of_lanes_.size()}) {
    for (auto i = end; i-- > open_ && is_one_too_many();) {
      if (standing_of(i) != standing::closed) close(i);
    }
  }
}

std::size_t lane_choice::on_demand_now() const noexcept {
  std::size_t count = 0;
  for (auto i = open_; i < of_lanes_.size(); ++i) {
    if (of_lanes_[i].standing.load() != standing::closed) ++count;
  }
  return count;
}

void lane_choice::lane::measure() noexcept {
  if (handled_ == measured_) return;
  measured_ = handled_;
  auto& own = of_->of_lanes_[which_];
  // A client that sends one request after the other may have sent the next one already.
  const bool more = own.routed.load(std::memory_order_relaxed) - handled_ + waiting_ > 1;
  auto pressure = own.pressure.load(std::memory_order_relaxed);
  if (!more) {
    pressure = std::max(0, pressure - relief_of_pause);
  } else if (change_of_sender_) {
    pressure = std::min(2 * pressure_of_busy_lane, pressure + pressure_of_change);
  }
  own.pressure.store(pressure, std::memory_order_relaxed);
  if (pressure < pressure_of_busy_lane || handled_ % messages_of_a_measurement != 0) return;
  const auto among = of_->lanes_like(which_);
  if (!of_->relief_for(which_, among)) of_->want_one(among);
}

void lane_choice::lane::publish(bool awake) noexcept {
  if (of_->open_ != of_->of_lanes_.size()) measure();
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

bool lane_choice::may_take(std::size_t number) const noexcept {
  if (standing_of(number) != standing::open) return false;
  const bool learns = on_demand(number) || (open_ == 1 && of_lanes_.size() - high_ != 1);
  return !learns || of_lanes_[number].plans.load(std::memory_order_acquire) == plans_->count();
}

lane_choice::range lane_choice::lanes_like(std::size_t number) const noexcept {
  const auto others = of_lanes_.size() - high_;
  return number < others ? range{0, others} : range{others, high_};
}

bool lane_choice::is_busy(std::size_t number) const noexcept {
  return of_lanes_[number].pressure.load(std::memory_order_relaxed) >= pressure_of_busy_lane;
}

std::optional<std::size_t> lane_choice::relief_for(std::size_t number, range among) const noexcept {
  std::optional<std::size_t> found;
  auto least = std::numeric_limits<std::uint64_t>::max();
  for (auto at = among.first; at < among.first + among.count; ++at) {
    if (at == number || is_busy(at) || !may_take(at)) continue;
    const auto load = load_of(of_lanes_[at]);
    if (load >= least) continue;
    found = at;
    least = load;
  }
  return found;
}

void lane_choice::want_one(range among) noexcept {
  if (!wanted_) return;
  const auto most = most_on_demand_.load(std::memory_order_relaxed);
  const bool is_full = on_demand_now() >= most;
  if (is_full && (among.first == 0 || most == 0)) return;
  if (pressure_.load(std::memory_order_relaxed) < 0) {
    pressure_.fetch_add(1, std::memory_order_relaxed);  // one could not be opened not long ago
    return;
  }
  for (std::size_t i = 0; i < among.count; ++i) {
    auto& one = of_lanes_[among.first + i];
    auto before = one.standing.load(std::memory_order_relaxed);
    if (before == standing::open) continue;
    if (before != standing::closed) return;
    if (!one.standing.compare_exchange_strong(before, standing::wanted)) return;
    // A lane for high priority takes the place of an ordinary one.
    for (auto other = among.first; is_full && other-- > open_ && is_one_too_many();) {
      if (standing_of(other) != standing::closed) close(other);
    }
    wanted_();
    return;
  }
}

void lane_choice::note_load(std::uint64_t load, range among) noexcept {
  auto now = pressure_.load(std::memory_order_relaxed);
  if (load < crowd) {
    if (now > 0) pressure_.store(now - 1, std::memory_order_relaxed);
  } else if (now < pressure_for_a_lane) {
    pressure_.store(now + 1, std::memory_order_relaxed);
  } else {
    want_one(among);
  }
}

void lane_choice::choose(slot& from, std::size_t which, range among) noexcept {
  const auto handled = [&] {
    return of_lanes_[*from.lane].slots[which].load(std::memory_order_acquire);
  };
  if (from.lane && handled() != from.routed) return;
  if (among.first != 0) {
    // The other lanes take messages of high priority while none for them is open.
    bool any = false;
    for (std::size_t i = 0; i < among.count; ++i) any = any || may_take(among.first + i);
    if (!any) {
      want_one(among);
      const range others{0, among.first};
      // Behind a crowd it would wait longer than for the lane and the plan.
      const auto mine = from.lane && *from.lane < among.first ? from.lane : std::nullopt;
      const bool will_open = standing_of(among.first) != standing::closed;
      if (will_open && load_of(of_lanes_[best(mine, others)]) >= crowd) {
        return move(from, which, among.first);
      }
      among = others;
    }
  }
  const bool is_among = from.lane && *from.lane >= among.first &&
                        *from.lane - among.first < among.count &&
                        standing_of(*from.lane) == standing::open;
  if (is_among && is_busy(*from.lane)) {
    if (const auto relief = relief_for(*from.lane, among)) {
      // The lane is measured again without this sender.
      of_lanes_[*from.lane].pressure.fetch_sub(pressure_of_busy_lane, std::memory_order_relaxed);
      return move(from, which, *relief);
    }
  }
  move(from, which, best(is_among ? from.lane : std::nullopt, among));
}

void lane_choice::move(slot& from, std::size_t which, std::size_t to) noexcept {
  if (from.lane == to) return;
  from.lane = to;
  // All that were routed there before.
  from.routed = of_lanes_[to].slots[which].load(std::memory_order_acquire);
}

std::size_t lane_choice::best(std::optional<std::size_t> mine, range among) noexcept {
  const auto is_awake = [&](std::size_t at) {
    return of_lanes_[at].awake.load(std::memory_order_relaxed);
  };
  const auto mine_load = mine ? load_of(of_lanes_[*mine]) : 0;
  const bool mine_is_idle = mine && mine_load == 0;
  if (mine_is_idle && is_awake(*mine)) return *mine;
  const auto begin = next_.fetch_add(1, std::memory_order_relaxed);
  std::size_t found = mine.value_or(among.first);
  auto least = mine ? mine_load : std::numeric_limits<std::uint64_t>::max();
  for (std::size_t i = 0; i < among.count; ++i) {
    const auto at = among.first + (begin + i) % among.count;
    if (at == mine || !may_take(at)) continue;
    const auto load = load_of(of_lanes_[at]);
    if (load == 0 && is_awake(at)) return at;
    if (load >= least) continue;
    found = at;
    least = load;
  }
  // Without a lane that has all plans, another one would lack them, too.
  const bool any = least != std::numeric_limits<std::uint64_t>::max();
  if (any && open_ != of_lanes_.size()) note_load(least, among);
  return mine_is_idle ? *mine : found;
}

}  // namespace sluice::detail
