// SPDX-License-Identifier: Apache-2.0
#include "operations/executor/request_queue.hpp"

#include <algorithm>
#include <array>
#include <iterator>
#include <optional>
#include <utility>

namespace sluice::operations {

using detail::operation_request;

namespace {

/// The number of requests of each priority that `next` examines.
constexpr std::size_t max_examined = 64;

}  // namespace

void request_queue::add(pointer& r) {
  auto& target =
      r->plan_job != nullptr ? planning_ : ready_[static_cast<std::size_t>(r->options.priority)];
  list node(memory_);
  auto& entry = node.emplace_back();
  entry.list = &target;
  entry.position = node.begin();
  r->counted_bytes = r->bytes();
  r->number = last_number_ + 1;
  // The last of the earlier requests with a hazard leaves last, as a rule. Then the search is not
  // repeated whenever one of the others has left.
  hazard_search search(index_, r->number, byte_index::order::newest_first);
  struct searched_use {
    const inference::use* use = nullptr;
    byte_index::range bytes{};
  };
  const auto uses = r->uses();
  detail::small_vector<searched_use, 4> searched_uses;
  searched_uses.reserve(uses.size());
  for (const auto& u : uses) {
    if (u.ignored || !*u.operand.value) continue;
    const auto bytes = range_of(u);
    if (bytes.begin == bytes.end) continue;
    searched_uses.push_back({&u, bytes});
    if (!empty()) (void)search.look(u.operand.value->value(), bytes);
  }
  try {
    if (search.has_ended() || r->plan_job != nullptr) prepare_late(entry, *r);
    entry.uses.reserve(searched_uses.size());
    for (const auto& u : searched_uses) {
      entry.uses.push_back(index_.add(u.bytes, r->number, &entry, u.use));
    }
    add_to_indices(entry, *r);
    account_.add(entry, *r);
  } catch (...) {
    by_job_.erase({r->plan_job.get(), r->number});
    remove_from_indices(*r);
    for (auto* const use : entry.uses) index_.remove(use);
    throw;
  }
  ++last_number_;
  if (r->plan) ++planned_;
  entry.request = std::move(r);
  settle(entry, search);
  target.splice(target.end(), node);
}

void request_queue::prepare_late(item& r, const operation_request& request) {
  numbered_requests nodes(memory_);
  nodes.emplace(request.number, &r);
  r.late_node = nodes.extract(nodes.begin());
  const auto* const job = request.plan_job.get();
  if (job != nullptr) by_job_.try_emplace({job, request.number}, &r);
}

void request_queue::detach(item& r) noexcept {
  if (r.standing == standing::blocked) {
    std::exchange(r.blocker, nullptr)->blocked.erase(r);
    --blocked_;
  } else if (r.standing == standing::parked) {
    parked_.erase(r);
  } else if (is_ready(r)) {
    lines_.remove(r);
  }
}

request_queue::place request_queue::next(bool batches) noexcept {
  free_oldest();
  unpark_some();
  for (std::size_t priority = 0; priority < ready_.size(); ++priority) {
    examine_some(priority);
    if (const auto* const r = lines_.next(priority, batches)) return {r->list, r->position};
  }
  return {};
}

void request_queue::free_oldest() noexcept {
  for (auto& requests : ready_) {
    if (requests.empty() || !is_oldest(requests.front())) continue;
    auto& oldest = requests.front();
    if (oldest.standing == standing::runnable) return;
    detach(oldest);
    oldest.standing = standing::runnable;
    lines_.add(oldest);
    return;
  }
}

void request_queue::unpark_some() noexcept {
  for (auto count = max_examined; count != 0; --count) {
    auto* const r = parked_.first();
    if (r == nullptr || removals_ < r->parked_until) return;
    parked_.erase(*r);
    r->standing = standing::unexamined;
    if (is_ready(*r)) lines_.add(*r);
  }
}

void request_queue::examine_some(std::size_t priority) noexcept {
  for (auto count = max_examined; count != 0; --count) {
    auto* const r = lines_.next_unexamined(priority);
    if (r == nullptr) return;
    examine(*r);
    lines_.end_examination(*r);
  }
}

request_queue::pointer request_queue::take(const place& p) noexcept {
  forget(*p.position);
  auto request = std::move(p.position->request);
  p.list->erase(p.position);
  return request;
}

void request_queue::give_plan(const void* job,
                              const std::shared_ptr<const operation_plan>& plan) noexcept {
  // The request that was moved last to each of the lists. The next one comes later.
  std::array<std::optional<list::iterator>, 3> last;
  for (auto found = by_job_.lower_bound({job, 0});
       found != by_job_.end() && std::get<0>(found->first) == job; found = by_job_.erase(found)) {
    ++visits_;
    auto& r = *found->second;
    r->plan_job = nullptr;
    r->plan = plan;
    if (plan) ++planned_;
    const auto priority = priority_of(r);
    auto& target = ready_[priority];
    auto& earlier = last[priority];
    target.splice(place_in(target, earlier.value_or(target.begin()), r->number), planning_,
                  r.position);
    earlier = r.position;
    r.list = &target;
    lines_.add(r);
  }
}

request_queue::list::iterator request_queue::place_in(list& requests, list::iterator first,
                                                      std::uint64_t number) noexcept {
  // Most plans are made in the order of the requests, so the place is near one of the ends.
  for (auto last = requests.end();; ++first, --last) {
    ++visits_;
    if (first == last || (*first)->number > number) return first;
    if ((*std::prev(last))->number < number) return last;
  }
}

queue_status request_queue::status(timer::time_point now) const noexcept {
  queue_status s{.requests = size(), .planning = planning_.size(), .bytes = account_.bytes()};
  for (const auto* requests : {&planning_, &ready_[0], &ready_[1], &ready_[2]}) {
    if (requests->empty()) continue;
    s.oldest = std::max<std::chrono::nanoseconds>(s.oldest, now - requests->front()->arrived);
  }
  return s;
}

request_queue::list request_queue::take_waiting_for(const void* job) noexcept {
  list requests(memory_);
  for (;;) {
    const auto found = by_job_.lower_bound({job, 0});
    if (found == by_job_.end() || std::get<0>(found->first) != job) return requests;
    ++visits_;
    move(*found->second, requests);
  }
}

request_queue::list request_queue::take_all() noexcept {
  list requests(memory_);
  for (auto* source : {&planning_, &ready_[0], &ready_[1], &ready_[2]}) {
    while (!source->empty()) move(source->front(), requests);
  }
  return requests;
}

request_queue::list request_queue::take_with_id(request_sender sender, std::uint64_t id) noexcept {
  list requests(memory_);
  for (;;) {
    const auto found = by_id_.lower_bound({sender, id, 0});
    if (found == by_id_.end()) return requests;
    const auto& [found_sender, found_id, number] = found->first;
    if (found_sender != sender || found_id != id) return requests;
    move(*found->second, requests);
  }
}

request_queue::list request_queue::take_ended(request_sender sender) noexcept {
  list requests(memory_);
  for (;;) {
    const auto found = while_alive_.lower_bound({sender, 0});
    if (found == while_alive_.end() || std::get<0>(found->first) != sender) return requests;
    move(*found->second, requests);
  }
}

request_queue::list request_queue::take_expired(timer::time_point now) noexcept {
  list requests(memory_);
  while (!by_deadline_.empty() && std::get<0>(by_deadline_.begin()->first) <= now) {
    move(*by_deadline_.begin()->second, requests);
  }
  return requests;
}

void request_queue::move(item& r, list& target) noexcept {
  if (!is_ready(r)) by_job_.erase({r->plan_job.get(), r->number});
  forget(r);
  target.splice(target.end(), *r.list, r.position);
}

void request_queue::charge_later(request_sender sender, std::uint64_t number,
                                 std::size_t bytes) noexcept {
  const auto for_each = [&](const auto& visit) {
    for (auto* requests : {&planning_, &ready_[0], &ready_[1], &ready_[2]}) {
      for (auto r = requests->rbegin(); r != requests->rend() && (*r)->number > number; ++r) {
        if ((*r)->sender == sender) visit(*r);
      }
    }
  };
  std::size_t count = 0;
  for_each([&](const item&) { ++count; });
  if (count == 0) return;
  for_each([&](item& r) { account_.charge(r, bytes / count); });
  account_.publish();
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
  if (r.standing == standing::unexamined ||
      (r.standing == standing::parked && removals_ >= r.parked_until)) {
    examine(r);
  }
  return r.standing == standing::runnable;
}

void request_queue::examine(item& r) noexcept {
  ++visits_;
  detach(r);
  // Requests that are later than `r` may have been added since.
  hazard_search search(index_, r->number, byte_index::order::oldest_first);
  if (!is_oldest(r)) {
    for (const auto* use : r.uses) {
      if (search.look(tensor_of(*use), use->bytes)) break;
    }
  }
  settle(r, search);
}

void request_queue::settle(item& r, const hazard_search& search) noexcept {
  if (auto* const blocker = search.found()) {
    r.standing = standing::blocked;
    r.blocker = blocker;
    blocker->blocked.push_back(r);
    ++blocked_;
  } else if (search.gave_up()) {
    r.standing = standing::parked;
    r.parked_until = removals_ + hazard_search::max_compared;
    parked_.push_back(r);
  } else {
    r.standing = standing::runnable;
    if (is_ready(r)) lines_.add(r);
  }
}

bool request_queue::is_oldest(const item& r) const noexcept {
  if (takes_batch_) return false;
  const auto is_later = [&](const list& requests) {
    return requests.empty() || requests.front()->number >= r->number;
  };
  return is_later(planning_) && std::all_of(ready_.begin(), ready_.end(), is_later);
}

void request_queue::forget(item& r) noexcept {
  for (auto* const use : r.uses) index_.remove(use);
  r.uses.clear();
  detach(r);
  ++removals_;
  while (auto* const next = r.blocked.first()) {
    ++visits_;
    detach(*next);
    next->standing = standing::unexamined;
    if (is_ready(*next)) lines_.add(*next);
  }
  remove_from_indices(*r);
  if (r->plan) --planned_;
  account_.remove(r);
}

}  // namespace sluice::operations
