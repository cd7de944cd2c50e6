// SPDX-License-Identifier: Apache-2.0
#include "operations/executor/request_queue.hpp"

#include "operations/executor/hazards.hpp"
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
/// The bytes that the operands of a request use.
detail::small_vector<byte_index::range, 4> ranges_of(const operation_request& r) {
  detail::small_vector<byte_index::range, 4> all;
  for (const auto& u : r.uses()) {
    if (u.ignored || !*u.of.value) continue;
    const auto& t = u.of.value->value();
    const auto extent = t.extent();
    const auto begin = reinterpret_cast<std::uintptr_t>(t.address());
    if (extent.first == extent.last) continue;
    all.push_back({begin, begin + (extent.last - extent.first), u.access != access_kind::read});
  }
  return all;
}

}  // namespace

void request_queue::require_room(const operation_request& r) const {
  if (count_ >= limits_.requests) {
    throw error(errc::overloaded, std::to_string(count_) + " requests wait already");
  }
  const auto own = of_sender_.find(r.sender.id);
  if (own != of_sender_.end()) {
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

void request_queue::count_sender(const operation_request& r) {
  if (r.sender.id == 0) return;
  auto& own = of_sender_[r.sender.id];
  ++own.requests;
  own.bytes += r.counted_bytes;
}

void request_queue::uncount_sender(const operation_request& r) noexcept {
  if (r.sender.id == 0) return;
  const auto own = of_sender_.find(r.sender.id);
  own->second.bytes -= r.counted_bytes;
  if (--own->second.requests == 0) of_sender_.erase(own);
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
  count_sender(*r);
  try {
    for (const auto& range : ranges_of(*r)) {
      made.used.reserve(made.used.size() + 1);
      made.used.push_back(used_.add(range, r->number, r.get()));
    }
    if (r->options.id != 0) by_id_.try_emplace({r->sender, r->options.id, r->number}, &made);
  } catch (...) {
    for (auto* const used : made.used) used_.remove(used);
    uncount_sender(*r);
    throw;
  }
  ++last_number_;
  ++count_;
  bytes_ += r->counted_bytes;
  charged_ += charge_of(*r, r->counted_bytes);
  made.request = std::move(r);
  made.is_behind = count_ != 1 && has_hazard(made);
  if (made.is_behind) ++behind_;
  to.splice(to.end(), node);
}

request_queue::place request_queue::next() noexcept {
  std::size_t held_back = 0;
  for (auto& waiting : ready_) {
    for (auto at = waiting.begin(); at != waiting.end(); ++at) {
      if (may_pass(*at)) return {&waiting, at};
      if (++held_back == max_held_back) return next_of_the_oldest();
    }
  }
  return {};
}

request_queue::place request_queue::next_of_the_oldest() noexcept {
  for (auto& waiting : ready_) {
    if (!waiting.empty() && may_pass(waiting.front())) return {&waiting, waiting.begin()};
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

request_queue::list request_queue::take_with_id(request_sender sender, std::uint64_t id) noexcept {
  list taken(memory_);
  for (;;) {
    const auto found = by_id_.lower_bound({sender, id, 0});
    if (found == by_id_.end()) return taken;
    const auto& [of, own, number] = found->first;
    if (of != sender || own != id) return taken;
    auto& request = *found->second;
    forget(request);
    taken.splice(taken.end(), *request.in, request.at);
  }
}

bool request_queue::may_pass(item& r) noexcept {
  if (!r.is_behind) return true;
  if (has_hazard(r)) return false;
  r.is_behind = false;
  --behind_;
  return true;
}

bool request_queue::has_hazard(const item& r) const noexcept {
  const auto conflicts = [&](const byte_index::entry& earlier) {
    return have_hazard(r->uses(),
                       static_cast<const detail::operation_request*>(earlier.request)->uses());
  };
  return std::any_of(r.used.begin(), r.used.end(), [&](const byte_index::entry* used) {
    return used_.any_before(r->number, used->of, conflicts);
  });
}

void request_queue::forget(item& r) noexcept {
  for (auto* const used : r.used) used_.remove(used);
  r.used.clear();
  if (std::exchange(r.is_behind, false)) --behind_;
  if (r->options.id != 0) by_id_.erase({r->sender, r->options.id, r->number});
  --count_;
  bytes_ -= r->counted_bytes;
  charged_ -= charge_of(*r, r->counted_bytes);
  uncount_sender(*r);
}

}  // namespace sluice::operations
