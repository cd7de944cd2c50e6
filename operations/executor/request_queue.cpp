// SPDX-License-Identifier: Apache-2.0
#include "operations/executor/request_queue.hpp"

#include "operations/executor/hazards.hpp"
#include "runtime/seam.hpp"

#include <algorithm>
#include <iterator>
#include <limits>
#include <string>

namespace sluice::operations {
namespace {

using detail::operation_request;
using use = inference::use;

/// The number of requests held back by a hazard among which `next` looks for one that may pass.
constexpr std::size_t max_held_back = 64;
/// The number of comparisons of two requests after which `next` looks at the oldest one only.
constexpr std::size_t max_comparisons = 2048;

bool touches(const use& u) noexcept {
  return !u.ignored && *u.of.value;
}

/// Stands for the block of a use. Imports, which have no stream, may share memory, so one key
/// stands for all of them. The key of a block never changes, also if it is freed while a request
/// waits.
const void* key_of(const use& u) noexcept {
  const auto* const block = detail::block_record::of(u.of.value->value().block());
  return block->stream ? block : nullptr;
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
  count_sender(*r);
  try {
    count_blocks(*r);
  } catch (...) {
    uncount_sender(*r);
    throw;
  }
  r->number = ++last_number_;
  try {
    by_number_.emplace_hint(by_number_.end(), r->number, entry{{&to, node.begin()}});
    if (r->options.id != 0) by_id_.emplace(r->sender, r->options.id, r->number);
  } catch (...) {
    by_number_.erase(r->number);
    uncount_blocks(*r, r->uses().size());
    uncount_sender(*r);
    throw;
  }
  ++count_;
  bytes_ += r->counted_bytes;
  charged_ += charge_of(*r, r->counted_bytes);
  node.front() = std::move(r);
  to.splice(to.end(), node);
}

request_queue::place request_queue::next() noexcept {
  std::size_t held_back = 0;
  std::size_t comparisons = max_comparisons;
  search_ended_early_ = false;
  for (auto& waiting : ready_) {
    for (auto at = waiting.begin(); at != waiting.end(); ++at) {
      if (may_pass(**at, comparisons)) return {&waiting, at};
      search_ended_early_ = comparisons == 0;
      if (++held_back == max_held_back || comparisons == 0) return next_of_the_oldest(comparisons);
    }
  }
  return {};
}

request_queue::place request_queue::next_of_the_oldest(std::size_t comparisons) noexcept {
  const auto oldest = std::min_element(ready_.begin(), ready_.end(), [](auto& a, auto& b) {
    return !a.empty() && (b.empty() || a.front()->number < b.front()->number);
  });
  for (auto waiting = ready_.begin(); waiting != ready_.end(); ++waiting) {
    auto all = std::numeric_limits<std::size_t>::max();
    if (!waiting->empty() && may_pass(*waiting->front(), waiting == oldest ? all : comparisons)) {
      return {&*waiting, waiting->begin()};
    }
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
  for (auto at = planning_.begin(); at != planning_.end();) {
    const auto here = at++;
    auto& r = **here;
    if (r.planned_by.get() != by) continue;
    r.planned_by = nullptr;
    r.plan = plan;
    auto& to = ready_[static_cast<std::size_t>(r.options.priority)];
    auto later = to.end();
    while (later != to.begin() && (*std::prev(later))->number > r.number) --later;
    to.splice(later, planning_, here);
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

bool request_queue::may_pass(const operation_request& r, std::size_t& comparisons) noexcept {
  if (by_number_.begin()->first == r.number || !shares_blocks(r)) return true;
  auto& free_up_to = by_number_.find(r.number)->second.free_up_to;
  for (auto earlier = by_number_.lower_bound(free_up_to); earlier->first < r.number; ++earlier) {
    free_up_to = earlier->first;
    if (comparisons == 0) return false;
    --comparisons;
    if (have_hazard(r.uses(), (*earlier->second.here).uses())) return false;
  }
  free_up_to = r.number;
  return true;
}

bool request_queue::shares_blocks(const operation_request& r) const noexcept {
  for (const auto& u : r.uses()) {
    if (!touches(u)) continue;
    const auto key = key_of(u);
    block_uses own;
    for (const auto& o : r.uses()) {
      if (!touches(o) || key_of(o) != key) continue;
      ++own.all;
      if (o.access != access_kind::read) ++own.writes;
    }
    const auto& counted = blocks_.find(key)->second;
    const bool written = counted.writes > own.writes;
    if (written || (u.access != access_kind::read && counted.all > own.all)) return true;
  }
  return false;
}

void request_queue::count_blocks(const operation_request& r) {
  std::size_t counted = 0;
  try {
    for (const auto& u : r.uses()) {
      if (touches(u)) {
        auto& uses = blocks_[key_of(u)];
        ++uses.all;
        if (u.access != access_kind::read) ++uses.writes;
      }
      ++counted;
    }
  } catch (...) {
    uncount_blocks(r, counted);
    throw;
  }
}

void request_queue::uncount_blocks(const operation_request& r, std::size_t uses) noexcept {
  for (const auto& u : r.uses().first(uses)) {
    if (!touches(u)) continue;
    const auto counted = blocks_.find(key_of(u));
    --counted->second.all;
    if (u.access != access_kind::read) --counted->second.writes;
    if (counted->second.all == 0) blocks_.erase(counted);
  }
}

void request_queue::forget(const operation_request& r) noexcept {
  by_number_.erase(r.number);
  if (r.options.id != 0) by_id_.erase({r.sender, r.options.id, r.number});
  uncount_blocks(r, r.uses().size());
  --count_;
  bytes_ -= r.counted_bytes;
  charged_ -= charge_of(r, r.counted_bytes);
  uncount_sender(r);
}

}  // namespace sluice::operations
