// SPDX-License-Identifier: Apache-2.0
#include "operations/executor/request_queue.hpp"

#include "operations/executor/hazards.hpp"
#include "runtime/seam.hpp"

#include <algorithm>
#include <array>
#include <iterator>
#include <optional>
#include <string>

namespace sluice::operations {
namespace {

using detail::operation_request;
using use = inference::use;

/// The number of requests held back by a hazard among which `next` looks for one that may pass.
constexpr std::size_t max_held_back = 64;
/// The bytes that the operands of a request use.
std::vector<byte_index::range> ranges_of(const operation_request& r) {
  std::vector<byte_index::range> all;
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
  list node;
  node.emplace_back();
  r->counted_bytes = r->bytes();
  r->number = last_number_ + 1;
  entry made{{&to, node.begin()}, ranges_of(*r)};
  count_sender(*r);
  try {
    for (const auto& range : made.used) used_.add(range, r->number);
    if (r->options.id != 0) by_id_.emplace(r->sender, r->options.id, r->number);
    by_number_.emplace_hint(by_number_.end(), r->number, made);
  } catch (...) {
    for (const auto& range : made.used) used_.remove(range, r->number);
    by_id_.erase({r->sender, r->options.id, r->number});
    uncount_sender(*r);
    throw;
  }
  ++last_number_;
  ++count_;
  bytes_ += r->counted_bytes;
  charged_ += charge_of(*r, r->counted_bytes);
  node.front() = std::move(r);
  to.splice(to.end(), node);
}

request_queue::place request_queue::next() noexcept {
  std::size_t held_back = 0;
  for (auto& waiting : ready_) {
    for (auto at = waiting.begin(); at != waiting.end(); ++at) {
      if (may_pass(**at)) return {&waiting, at};
      if (++held_back == max_held_back) return next_of_the_oldest();
    }
  }
  return {};
}

request_queue::place request_queue::next_of_the_oldest() noexcept {
  for (auto& waiting : ready_) {
    if (!waiting.empty() && may_pass(*waiting.front())) return {&waiting, waiting.begin()};
  }
  return {};
}

request_queue::pointer request_queue::take(const place& from) noexcept {
  auto taken = std::move(*from.at);
  from.in->erase(from.at);
  forget(*taken);
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
    by_number_.find(r.number)->second.here.in = &to;
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
  list taken;
  for (;;) {
    const auto found = by_id_.lower_bound({sender, id, 0});
    if (found == by_id_.end()) return taken;
    const auto& [of, own, number] = *found;
    if (of != sender || own != id) return taken;
    const auto from = by_number_.find(number)->second.here;
    forget(**from.at);
    taken.splice(taken.end(), *from.in, from.at);
  }
}

bool request_queue::may_pass(const operation_request& r) const noexcept {
  if (by_number_.begin()->first == r.number) return true;
  const auto has_hazard = [&](std::uint64_t earlier) {
    return have_hazard(r.uses(), (*by_number_.find(earlier)->second.here).uses());
  };
  const auto& used = by_number_.find(r.number)->second.used;
  return std::none_of(used.begin(), used.end(), [&](const byte_index::range& range) {
    return used_.any_before(r.number, range, has_hazard);
  });
}

void request_queue::forget(const operation_request& r) noexcept {
  const auto found = by_number_.find(r.number);
  for (const auto& range : found->second.used) used_.remove(range, r.number);
  by_number_.erase(found);
  if (r.options.id != 0) by_id_.erase({r.sender, r.options.id, r.number});
  --count_;
  bytes_ -= r.counted_bytes;
  charged_ -= charge_of(r, r.counted_bytes);
  uncount_sender(r);
}

}  // namespace sluice::operations
