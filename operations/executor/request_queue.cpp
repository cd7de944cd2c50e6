// SPDX-License-Identifier: Apache-2.0
#include "operations/executor/request_queue.hpp"

#include "runtime/seam.hpp"

#include <algorithm>
#include <array>
#include <iterator>
#include <optional>
#include <string>
#include <utility>

namespace sluice::operations {
namespace {

using detail::operation_request;
using use = inference::use;

/// The number of requests held back by a hazard among which `next` looks for one that may pass.
constexpr std::size_t max_held_back = 64;
constexpr std::size_t max_held_back_of_sender = 16;
/// The senders of whom nothing waits and who are remembered, so that their next request finds its
/// entry.
constexpr std::size_t max_idle_senders = 64;
/// The number of earlier requests with which one is compared, and of those that are visited for it.
constexpr std::size_t max_compared = 64;
constexpr std::size_t max_visited = 4096;

bool is_wanted(const request_queue::item& r, bool batches) noexcept {
  return batches || r->most_in_batch == 0;
}
const tensor& tensor_of(const byte_index::entry& used) noexcept {
  return static_cast<const use*>(used.use)->of.value->value();
}
/// The bytes of an operand. It is touched.
byte_index::range range_of(const use& u) noexcept {
  const auto& t = u.of.value->value();
  const auto extent = t.extent();
  const auto begin = reinterpret_cast<std::uintptr_t>(t.address());
  return {begin, begin + (extent.last - extent.first), u.access != access_kind::read};
}

}  // namespace

void request_queue::require_room(const operation_request& r) const {
  if (count_ >= limits_.requests) {
    throw error(errc::overloaded, std::to_string(count_) + " requests wait already");
  }
  const auto own = of_sender_.find(r.sender.id);
  if (r.sender.id != 0 && own != of_sender_.end()) {
    const auto& waiting = own->second;
    if (waiting.requests >= limits_.requests_of_sender) {
      throw error(errc::overloaded,
                  std::to_string(waiting.requests) + " requests of this sender wait already");
    }
    if (r.bytes() > limits_.bytes_of_sender - std::min(waiting.bytes, limits_.bytes_of_sender)) {
      throw error(errc::overloaded, "the requests of this sender that wait already use " +
                                        std::to_string(waiting.bytes) + " bytes");
    }
  }
  if (count_ != 0 && charge_of(r, r.bytes()) > limits_.bytes - std::min(charged_, limits_.bytes)) {
    throw error(errc::overloaded,
                "the requests that wait already use " + std::to_string(bytes_) + " bytes");
  }
}

std::size_t request_queue::charge_of(const operation_request& r, std::size_t bytes) const noexcept {
  return r.sender.id == 0 ? bytes : std::min(bytes, limits_.bytes_of_sender);
}

request_queue::sender_share& request_queue::count_sender(const operation_request& r) {
  const auto [at, is_new] = of_sender_.try_emplace(r.sender.id);
  auto& own = at->second;
  if (!is_new && own.requests == 0) --idle_senders_;
  ++own.requests;
  own.bytes += r.counted_bytes;
  return own;
}

void request_queue::uncount_sender(const operation_request& r, sender_share& own) noexcept {
  own.bytes -= r.counted_bytes;
  if (--own.requests == 0 && ++idle_senders_ > max_idle_senders) forget_senders();
}

void request_queue::forget_senders() noexcept {
  std::erase_if(of_sender_, [](const auto& entry) { return entry.second.requests == 0; });
  idle_senders_ = 0;
}

void request_queue::add(pointer& r) {
  auto& to =
      r->planned_by != nullptr ? planning_ : ready_[static_cast<std::size_t>(r->options.priority)];
  list node(memory_);
  auto& made = node.emplace_back();
  made.in = &to;
  made.at = node.begin();
  r->counted_bytes = r->bytes();
  r->number = last_number_ + 1;
  auto& own = count_sender(*r);
  made.own = &own;
  try {
    made.used.reserve(r->uses().size());
    for (const auto& u : r->uses()) {
      if (u.ignored || !*u.of.value) continue;
      const auto range = range_of(u);
      if (range.begin != range.end) made.used.push_back(used_.add(range, r->number, &made, &u));
    }
    add_to_indices(made, *r);
  } catch (...) {
    remove_from_indices(*r);
    for (auto* const used : made.used) used_.remove(used);
    uncount_sender(*r, own);
    throw;
  }
  ++last_number_;
  ++count_;
  bytes_ += r->counted_bytes;
  charged_ += charge_of(*r, r->counted_bytes);
  if (r->plan) ++planned_;
  if (lane_ != nullptr) lane_->note_added(r->sender);
  made.request = std::move(r);
  look_for_blocker(made);
  if (&to != &planning_) line_up(made);
  to.splice(to.end(), node);
}

void request_queue::line_up(item& r) noexcept {
  const auto priority = static_cast<std::size_t>(r->options.priority);
  auto& own = r.own->turns[priority];
  if (own.requests.empty()) turns_[priority].push_back(own);
  auto* earlier = own.requests.last();
  while (earlier != nullptr && (*earlier)->number > r->number) earlier = earlier->previous;
  own.requests.insert_behind(earlier, r);
  r.lines_up = true;
}

void request_queue::leave_line(item& r) noexcept {
  if (!std::exchange(r.lines_up, false)) return;
  const auto priority = static_cast<std::size_t>(r->options.priority);
  auto& own = r.own->turns[priority];
  auto& all = turns_[priority];
  own.requests.erase(r);
  if (!own.requests.empty() && all.last() == &own) return;
  all.erase(own);
  if (!own.requests.empty()) all.push_back(own);
}

request_queue::place request_queue::next(bool batches) noexcept {
  std::size_t passed = 0;
  for (std::size_t priority = 0; priority < ready_.size(); ++priority) {
    for (auto* of = turns_[priority].first(); of != nullptr; of = of->next) {
      std::size_t passed_of_sender = 0;
      for (auto* r = of->requests.first(); r != nullptr; r = r->next) {
        if (is_wanted(*r, batches) && may_pass(*r)) return {&ready_[priority], r->at};
        if (++passed == max_held_back) return next_of_the_oldest(batches);
        if (of->next != nullptr && ++passed_of_sender == max_held_back_of_sender) break;
      }
    }
  }
  return next_of_the_oldest(batches);
}

request_queue::place request_queue::next_of_the_oldest(bool batches) noexcept {
  for (auto& waiting : ready_) {
    if (waiting.empty()) continue;
    auto& oldest = waiting.front();
    if (is_wanted(oldest, batches) && may_pass(oldest)) return {&waiting, waiting.begin()};
  }
  return {};
}

request_queue::pointer request_queue::take(const place& from) noexcept {
  forget(*from.at);
  auto taken = std::move(from.at->request);
  from.in->erase(from.at);
  return taken;
}

void request_queue::give_plan(const void* by,
                              const std::shared_ptr<const operation_plan>& plan) noexcept {
  // Behind the request that was moved last to each of the lists. The next one comes later.
  std::array<std::optional<list::iterator>, 3> behind_last;
  for (auto at = planning_.begin(); at != planning_.end();) {
    const auto here = at++;
    auto& r = **here;
    if (r.planned_by.get() != by) continue;
    r.planned_by = nullptr;
    r.plan = plan;
    if (plan) ++planned_;
    const auto priority = static_cast<std::size_t>(r.options.priority);
    auto& to = ready_[priority];
    auto& later = behind_last[priority];
    if (!later) {
      later = to.end();
      while (later != to.begin() && (*std::prev(*later))->number > r.number) --*later;
    }
    while (later != to.end() && (**later)->number < r.number) ++*later;
    to.splice(*later, planning_, here);
    here->in = &to;
    line_up(*here);
  }
}

queue_status request_queue::status(timer::time_point now) const noexcept {
  queue_status s{.requests = count_, .planning = planning_.size(), .bytes = bytes_};
  for (const auto* waiting : {&planning_, &ready_[0], &ready_[1], &ready_[2]}) {
    if (waiting->empty()) continue;
    s.oldest = std::max<std::chrono::nanoseconds>(s.oldest, now - waiting->front()->arrived);
  }
  return s;
}

request_queue::list request_queue::take_planned_by(const void* by) noexcept {
  list taken(memory_);
  for (auto at = planning_.begin(); at != planning_.end();) {
    auto& r = *at++;
    if (r->planned_by.get() == by) move(r, taken);
  }
  return taken;
}

request_queue::list request_queue::take_all() noexcept {
  list taken(memory_);
  for (auto* from : {&planning_, &ready_[0], &ready_[1], &ready_[2]}) {
    while (!from->empty()) move(from->front(), taken);
  }
  return taken;
}

request_queue::list request_queue::take_with_id(request_sender sender, std::uint64_t id) noexcept {
  list taken(memory_);
  for (;;) {
    const auto found = by_id_.lower_bound({sender, id, 0});
    if (found == by_id_.end()) return taken;
    const auto& [of, own, number] = found->first;
    if (of != sender || own != id) return taken;
    move(*found->second, taken);
  }
}

request_queue::list request_queue::take_ended(request_sender sender) noexcept {
  list taken(memory_);
  for (;;) {
    const auto found = while_alive_.lower_bound({sender, 0});
    if (found == while_alive_.end() || std::get<0>(found->first) != sender) return taken;
    move(*found->second, taken);
  }
}

request_queue::list request_queue::take_expired(timer::time_point now) noexcept {
  list taken(memory_);
  while (!by_deadline_.empty() && std::get<0>(by_deadline_.begin()->first) <= now) {
    move(*by_deadline_.begin()->second, taken);
  }
  return taken;
}

void request_queue::move(item& r, list& to) noexcept {
  forget(r);
  to.splice(to.end(), *r.in, r.at);
}

void request_queue::charge_later(request_sender sender, std::uint64_t after,
                                 std::size_t bytes) noexcept {
  const auto for_each = [&](const auto& visit) {
    for (auto* in : {&planning_, &ready_[0], &ready_[1], &ready_[2]}) {
      for (auto at = in->rbegin(); at != in->rend() && (*at)->number > after; ++at) {
        if ((*at)->sender == sender) visit(*at);
      }
    }
  };
  std::size_t count = 0;
  for_each([&](const item&) { ++count; });
  if (count == 0) return;
  const auto each = bytes / count;
  for_each([&](item& r) {
    charged_ -= charge_of(*r, r->counted_bytes);
    r->counted_bytes += each;
    r.own->bytes += each;
    bytes_ += each;
    charged_ += charge_of(*r, r->counted_bytes);
  });
}

void request_queue::add_to_indices(item& r, const operation_request& request) {
  const auto& options = request.options;
  if (options.id != 0) by_id_.try_emplace({request.sender, options.id, request.number}, &r);
  if (options.while_alive) while_alive_.try_emplace({request.sender, request.number}, &r);
  if (options.deadline) by_deadline_.try_emplace({*options.deadline, request.number}, &r);
}

void request_queue::remove_from_indices(const operation_request& request) noexcept {
  const auto& options = request.options;
  if (options.id != 0) by_id_.erase({request.sender, options.id, request.number});
  if (options.while_alive) while_alive_.erase({request.sender, request.number});
  if (options.deadline) by_deadline_.erase({*options.deadline, request.number});
}

bool request_queue::may_pass(item& r) noexcept {
  if (!r.may_pass && r.blocker == nullptr && (taken_ >= r.look_again_at || is_oldest(r))) {
    look_for_blocker(r);
  }
  return r.may_pass;
}

void request_queue::look_for_blocker(item& r) noexcept {
  r.may_pass = is_oldest(r);
  if (r.may_pass) return;
  std::size_t compared = 0;
  std::size_t visits_left = max_visited;
  for (const auto* used : r.used) {
    item* found = nullptr;
    const auto conflicts = [&](const byte_index::entry& earlier) {
      if (++compared > max_compared) return true;
      if (!overlap(tensor_of(*used), tensor_of(earlier))) return false;
      found = static_cast<item*>(earlier.request);
      return true;
    };
    if (!used_.any_before(r->number, used->of, conflicts, visits_left)) continue;
    if (found != nullptr) {
      block(r, *found);
    } else {
      r.look_again_at = taken_ + max_compared;
    }
    return;
  }
  r.may_pass = true;
}

bool request_queue::is_oldest(const item& r) const noexcept {
  if (takes_batch_) return false;
  const auto is_later = [&](const list& waiting) {
    return waiting.empty() || waiting.front()->number >= r->number;
  };
  return is_later(planning_) && std::all_of(ready_.begin(), ready_.end(), is_later);
}

void request_queue::block(item& r, item& by) noexcept {
  r.blocker = &by;
  r.next_blocked = std::exchange(by.first_blocked, &r);
  if (r.next_blocked != nullptr) r.next_blocked->previous_blocked = &r;
  ++blocked_;
}

void request_queue::unblock(item& r) noexcept {
  (r.previous_blocked != nullptr ? r.previous_blocked->next_blocked : r.blocker->first_blocked) =
      r.next_blocked;
  if (r.next_blocked != nullptr) r.next_blocked->previous_blocked = r.previous_blocked;
  r.blocker = r.next_blocked = r.previous_blocked = nullptr;
  r.look_again_at = 0;
  --blocked_;
}

void request_queue::forget(item& r) noexcept {
  for (auto* const used : r.used) used_.remove(used);
  r.used.clear();
  leave_line(r);
  ++taken_;
  if (r.blocker != nullptr) unblock(r);
  while (r.first_blocked != nullptr) unblock(*r.first_blocked);
  remove_from_indices(*r);
  --count_;
  if (r->plan) --planned_;
  bytes_ -= r->counted_bytes;
  charged_ -= charge_of(*r, r->counted_bytes);
  uncount_sender(*r, *r.own);
  if (lane_ != nullptr) lane_->note_left(r->sender);
}

}  // namespace sluice::operations
