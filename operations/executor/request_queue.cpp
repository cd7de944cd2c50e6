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

/// The number of requests of each priority that `next` examines.
constexpr std::size_t max_examined = 64;
/// The senders of whom nothing waits and who are remembered, so that their next request finds its
/// entry.
constexpr std::size_t max_idle_senders = 64;
/// The number of earlier requests with which one is compared, and of those that are visited for it.
constexpr std::size_t max_compared = 64;
constexpr std::size_t max_visited = 4096;

std::size_t priority_of(const request_queue::item& r) noexcept {
  return static_cast<std::size_t>(r->options.priority);
}
/// Its place in `request_queue::ready_requests::lines`.
std::size_t kind_of(const request_queue::item& r) noexcept {
  return r->most_in_batch == 0 ? 0 : 1;
}
const tensor& tensor_of(const byte_index::entry& used) noexcept {
  return static_cast<const use*>(used.use)->operand.value->value();
}
/// The bytes of an operand that exists already.
byte_index::range range_of(const use& u) noexcept {
  const auto& t = u.operand.value->value();
  const auto extent = t.extent();
  const auto begin = reinterpret_cast<std::uintptr_t>(t.address());
  return {begin, begin + (extent.last - extent.first), u.access != access_kind::read};
}

}  // namespace

/// Looks for an earlier request with a hazard. A bounded number is compared.
class request_queue::hazard_search {
 public:
  hazard_search(const byte_index& used, std::uint64_t number, byte_index::order direction) noexcept
      : used_(used), number_(number), direction_(direction) {}

  /// Looks for one that has a hazard with a use of these bytes. Returns whether the search has
  /// ended.
  bool look(const tensor& value, const byte_index::range& bytes) noexcept {
    if (has_ended_) return true;
    const auto conflicts = [&](const byte_index::entry& earlier) {
      if (++compared_ > max_compared) return true;
      if (!overlap(value, tensor_of(earlier))) return false;
      found_ = static_cast<item*>(earlier.request);
      return true;
    };
    has_ended_ = used_.any_before(number_, bytes, conflicts, visits_left_, direction_);
    return has_ended_;
  }
  /// Whether it has found a request or given up.
  [[nodiscard]] bool has_ended() const noexcept { return has_ended_; }
  /// The request; nullptr if there is none, or `gave_up`.
  [[nodiscard]] item* found() const noexcept { return found_; }
  [[nodiscard]] bool gave_up() const noexcept { return has_ended_ && found_ == nullptr; }

 private:
  const byte_index& used_;
  std::uint64_t number_;
  byte_index::order direction_;
  std::size_t compared_ = 0;
  std::size_t visits_left_ = max_visited;
  item* found_ = nullptr;
  bool has_ended_ = false;
};

void request_queue::require_room(const operation_request& r, std::size_t bytes) const {
  const auto requests = lane_ != nullptr ? lane_->requests_of_all() : count_;
  if (requests >= limits_.requests) {
    throw error(errc::overloaded, std::to_string(requests) + " requests wait already");
  }
  auto charge = charge_of(r, bytes);
  for (const auto& [identity, shared_bytes] : r.shared()) {
    if (identity == nullptr) break;
    const auto shared_charge = charge_of_shared(shared_bytes);
    if (!shared_of_sender_.contains(std::pair(r.sender.id, identity))) bytes += shared_charge;
    if (!shared_.contains(identity)) charge += shared_charge;
  }
  const auto own = r.sender.id == 0 ? of_sender_.end() : of_sender_.find(r.sender.id);
  if (own != of_sender_.end() && own->second.requests != 0) {
    const auto& waiting = own->second;
    if (waiting.requests >= limits_.requests_of_sender) {
      throw error(errc::overloaded,
                  std::to_string(waiting.requests) + " requests of this sender wait already");
    }
    if (bytes > limits_.bytes_of_sender - std::min(waiting.bytes, limits_.bytes_of_sender)) {
      throw error(errc::overloaded, "the requests of this sender that wait already use " +
                                        std::to_string(waiting.bytes) + " bytes");
    }
  }
  const auto charged = lane_ != nullptr ? lane_->bytes_of_all() : charged_;
  if (requests != 0 && charge > limits_.bytes - std::min(charged, limits_.bytes)) {
    throw error(errc::overloaded, "the requests that wait already use " +
                                      std::to_string(lane_ != nullptr ? charged : bytes_) +
                                      " bytes");
  }
}

std::size_t request_queue::charge_of(const operation_request& r, std::size_t bytes) const noexcept {
  return r.sender.id == 0 ? bytes : std::min(bytes, limits_.bytes_of_sender);
}

std::size_t request_queue::charge_of_shared(std::size_t bytes) const noexcept {
  return std::min(bytes, limits_.bytes_of_sender / 4);
}

request_queue::sender_share& request_queue::count_sender(const operation_request& r) {
  if (last_share_ == nullptr || last_sender_ != r.sender.id) {
    const auto [at, is_new] = of_sender_.try_emplace(r.sender.id, memory_);
    if (is_new) ++idle_senders_;
    last_share_ = &at->second;
    last_sender_ = r.sender.id;
  }
  auto& share = *last_share_;
  if (share.requests == 0) --idle_senders_;
  ++share.requests;
  share.bytes += r.counted_bytes;
  return share;
}

void request_queue::uncount_sender(const operation_request& r, sender_share& own) noexcept {
  own.bytes -= r.counted_bytes;
  if (--own.requests == 0 && ++idle_senders_ > max_idle_senders) forget_senders();
}

void request_queue::count_shared(item& r, const operation_request& request) {
  for (const auto& part : request.shared()) {
    if (part.identity == nullptr) break;
    const auto of_sender = shared_of_sender_.try_emplace({request.sender.id, part.identity}).first;
    try {
      (void)shared_.try_emplace(part.identity);
    } catch (...) {
      if (of_sender->second.requests == 0) shared_of_sender_.erase(of_sender);
      throw;
    }
    auto& in_all = shared_.find(part.identity)->second;
    const auto charge = charge_of_shared(part.bytes);
    if (of_sender->second.requests++ == 0) {
      of_sender->second.charge = charge;
      r.share->bytes += charge;
    }
    if (in_all.requests++ == 0) {
      in_all.bytes = part.bytes;
      in_all.charge = charge;
      bytes_ += in_all.bytes;
      charged_ += in_all.charge;
    }
    // What has been counted is uncounted, whatever is thrown later.
    (r.shared[0].identity == nullptr ? r.shared[0] : r.shared[1]) = part;
  }
}

void request_queue::uncount_shared(item& r, const operation_request& request) noexcept {
  if (r.shared[0].identity == nullptr) return;
  for (auto& part : r.shared) {
    if (part.identity == nullptr) continue;
    const auto of_sender = shared_of_sender_.find(std::pair(request.sender.id, part.identity));
    const auto in_all = shared_.find(part.identity);
    if (--of_sender->second.requests == 0) {
      r.share->bytes -= of_sender->second.charge;
      shared_of_sender_.erase(of_sender);
    }
    if (--in_all->second.requests == 0) {
      bytes_ -= in_all->second.bytes;
      charged_ -= in_all->second.charge;
      shared_.erase(in_all);
    }
    part = {};
  }
}

void request_queue::forget_senders() noexcept {
  std::erase_if(of_sender_, [](const auto& entry) { return entry.second.requests == 0; });
  idle_senders_ = 0;
  last_share_ = nullptr;
}

void request_queue::add(pointer& r) {
  auto& to =
      r->plan_job != nullptr ? planning_ : ready_[static_cast<std::size_t>(r->options.priority)];
  list node(memory_);
  auto& made = node.emplace_back();
  made.in = &to;
  made.at = node.begin();
  r->counted_bytes = r->bytes();
  r->number = last_number_ + 1;
  // The last of the earlier requests with a hazard leaves last, as a rule. Then the search is not
  // repeated whenever one of the others has left.
  hazard_search search(used_, r->number, byte_index::order::newest_first);
  struct searched_use {
    const use* of = nullptr;
    byte_index::range bytes{};
  };
  const auto uses = r->uses();
  detail::small_vector<searched_use, 4> searched;
  searched.reserve(uses.size());
  for (const auto& u : uses) {
    if (u.ignored || !*u.operand.value) continue;
    const auto bytes = range_of(u);
    if (bytes.begin == bytes.end) continue;
    searched.push_back({&u, bytes});
    if (count_ != 0) (void)search.look(u.operand.value->value(), searched.back().bytes);
  }
  auto& share = count_sender(*r);
  made.share = &share;
  try {
    if (search.has_ended() || r->plan_job != nullptr) prepare_late(made, *r);
    if (r->shared()[0].identity != nullptr) count_shared(made, *r);
    made.used.reserve(searched.size());
    for (const auto& u : searched) {
      made.used.push_back(used_.add(u.bytes, r->number, &made, u.of));
    }
    add_to_indices(made, *r);
  } catch (...) {
    by_job_.erase({r->plan_job.get(), r->number});
    remove_from_indices(*r);
    for (auto* const used : made.used) used_.remove(used);
    uncount_shared(made, *r);
    uncount_sender(*r, share);
    throw;
  }
  ++last_number_;
  ++count_;
  bytes_ += r->counted_bytes;
  charged_ += charge_of(*r, r->counted_bytes);
  if (r->plan) ++planned_;
  if (lane_ != nullptr) {
    lane_->note_added(r->sender);
    note_charge();
  }
  made.request = std::move(r);
  settle(made, search);
  to.splice(to.end(), node);
}

void request_queue::prepare_late(item& r, const operation_request& request) {
  numbered alone(memory_);
  alone.emplace(request.number, &r);
  r.late_place = alone.extract(alone.begin());
  const auto* const job = request.plan_job.get();
  if (job != nullptr) by_job_.try_emplace({job, request.number}, &r);
}

request_queue::item& request_queue::line::first() const noexcept {
  if (late.empty()) return *in_order.first();
  auto& of_late = *late.begin()->second;
  return in_order.empty() || of_late->number < (*in_order.first())->number ? of_late
                                                                           : *in_order.first();
}

void request_queue::line::add(item& r) noexcept {
  r.is_late = !in_order.empty() && r->number < (*in_order.last())->number;
  if (r.is_late) {
    late.insert(std::move(r.late_place));
  } else {
    in_order.push_back(r);
  }
}

void request_queue::line::remove(item& r) noexcept {
  if (r.is_late) {
    late.erase(r->number);
  } else {
    in_order.erase(r);
  }
}

request_queue::ready_requests& request_queue::ready_like(const item& r) noexcept {
  return r.share->ready[priority_of(r)];
}

void request_queue::line_up(item& r) noexcept {
  auto& ready = ready_like(r);
  if (r.state == standing::unexamined) {
    if (ready.unexamined.requests.empty()) unexamined_[priority_of(r)].push_back(ready.unexamined);
    ready.unexamined.requests.push_back(r);
  } else if (r.state == standing::runnable) {
    auto& joined = ready.lines[kind_of(r)];
    auto& all = lines_[priority_of(r)][kind_of(r)];
    if (joined.empty()) {
      all.push_back(joined);
      joined.turn = ++turns_;
    }
    joined.add(r);
  }
}

void request_queue::leave_line(item& r) noexcept {
  if (r.state == standing::blocked) {
    std::exchange(r.blocker, nullptr)->blocked.erase(r);
    --blocked_;
  } else if (r.state == standing::parked) {
    parked_.erase(r);
  } else if (is_ready(r)) {
    const auto priority = priority_of(r);
    auto& ready = ready_like(r);
    if (r.state == standing::unexamined) {
      auto& left = ready.unexamined;
      left.requests.erase(r);
      if (left.requests.empty()) unexamined_[priority].erase(left);
      return;
    }
    ready.lines[kind_of(r)].remove(r);
    for (std::size_t kind = 0; kind < ready.lines.size(); ++kind) {
      auto& left = ready.lines[kind];
      if (left.turn != 0) end_turn(lines_[priority][kind], left);
    }
  }
}

void request_queue::end_turn(chain<line>& all, line& ended) noexcept {
  all.erase(ended);
  ended.turn = 0;
  if (ended.empty()) return;
  all.push_back(ended);
  ended.turn = ++turns_;
}

request_queue::place request_queue::next(bool batches) noexcept {
  free_oldest();
  unpark_some();
  for (std::size_t priority = 0; priority < ready_.size(); ++priority) {
    examine_some(priority);
    const auto& [alone, together] = lines_[priority];
    const auto* first = alone.first();
    if (const auto* other = together.first(); batches && other != nullptr) {
      if (first == nullptr || other->turn < first->turn) first = other;
    }
    if (first == nullptr) continue;
    const auto* found = &first->first();
    if (batches) {
      for (const auto& of_sender : ready_like(*found).lines) {
        if (of_sender.empty()) continue;
        const auto& request = of_sender.first();
        if (request->number < (*found)->number) found = &request;
      }
    }
    return {&ready_[priority], found->at};
  }
  return {};
}

void request_queue::free_oldest() noexcept {
  for (auto& waiting : ready_) {
    if (waiting.empty() || !is_oldest(waiting.front())) continue;
    auto& oldest = waiting.front();
    if (oldest.state == standing::runnable) return;
    leave_line(oldest);
    oldest.state = standing::runnable;
    line_up(oldest);
    return;
  }
}

void request_queue::unpark_some() noexcept {
  for (auto left = max_examined; left != 0; --left) {
    auto* const r = parked_.first();
    if (r == nullptr || taken_ < r->look_again_at) return;
    parked_.erase(*r);
    r->state = standing::unexamined;
    if (is_ready(*r)) line_up(*r);
  }
}

void request_queue::examine_some(std::size_t priority) noexcept {
  auto& waiting = unexamined_[priority];
  for (auto left = max_examined; left != 0 && !waiting.empty(); --left) {
    auto& sender = *waiting.first();
    examine(*sender.requests.first());
    if (sender.requests.empty()) continue;
    waiting.erase(sender);
    waiting.push_back(sender);
  }
}

request_queue::pointer request_queue::take(const place& from) noexcept {
  forget(*from.at);
  auto taken = std::move(from.at->request);
  from.in->erase(from.at);
  return taken;
}

void request_queue::give_plan(const void* by,
                              const std::shared_ptr<const operation_plan>& plan) noexcept {
  // The request that was moved last to each of the lists. The next one comes later.
  std::array<std::optional<list::iterator>, 3> last;
  for (auto found = by_job_.lower_bound({by, 0});
       found != by_job_.end() && std::get<0>(found->first) == by; found = by_job_.erase(found)) {
    ++visits_;
    auto& r = *found->second;
    r->plan_job = nullptr;
    r->plan = plan;
    if (plan) ++planned_;
    const auto priority = priority_of(r);
    auto& to = ready_[priority];
    auto& earlier = last[priority];
    to.splice(place_in(to, earlier.value_or(to.begin()), r->number), planning_, r.at);
    earlier = r.at;
    r.in = &to;
    line_up(r);
  }
}

request_queue::list::iterator request_queue::place_in(list& in, list::iterator first,
                                                      std::uint64_t number) noexcept {
  // Most plans are made in the order of the requests, so the place is near one of the ends.
  for (auto last = in.end();; ++first, --last) {
    ++visits_;
    if (first == last || (*first)->number > number) return first;
    if ((*std::prev(last))->number < number) return last;
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
  for (;;) {
    const auto found = by_job_.lower_bound({by, 0});
    if (found == by_job_.end() || std::get<0>(found->first) != by) return taken;
    ++visits_;
    move(*found->second, taken);
  }
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
  if (!is_ready(r)) by_job_.erase({r->plan_job.get(), r->number});
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
    r.share->bytes += each;
    bytes_ += each;
    charged_ += charge_of(*r, r->counted_bytes);
  });
  if (lane_ != nullptr) note_charge();
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
  if (r.state == standing::unexamined ||
      (r.state == standing::parked && taken_ >= r.look_again_at)) {
    examine(r);
  }
  return r.state == standing::runnable;
}

void request_queue::examine(item& r) noexcept {
  ++visits_;
  leave_line(r);
  // Requests that are later than `r` may have been added since.
  hazard_search search(used_, r->number, byte_index::order::oldest_first);
  if (!is_oldest(r)) {
    for (const auto* used : r.used) {
      if (search.look(tensor_of(*used), used->bytes)) break;
    }
  }
  settle(r, search);
}

void request_queue::settle(item& r, const hazard_search& search) noexcept {
  if (auto* const blocker = search.found()) {
    r.state = standing::blocked;
    r.blocker = blocker;
    blocker->blocked.push_back(r);
    ++blocked_;
  } else if (search.gave_up()) {
    r.state = standing::parked;
    r.look_again_at = taken_ + max_compared;
    parked_.push_back(r);
  } else {
    r.state = standing::runnable;
    if (is_ready(r)) line_up(r);
  }
}

bool request_queue::is_oldest(const item& r) const noexcept {
  if (takes_batch_) return false;
  const auto is_later = [&](const list& waiting) {
    return waiting.empty() || waiting.front()->number >= r->number;
  };
  return is_later(planning_) && std::all_of(ready_.begin(), ready_.end(), is_later);
}

void request_queue::forget(item& r) noexcept {
  for (auto* const used : r.used) used_.remove(used);
  r.used.clear();
  leave_line(r);
  ++taken_;
  while (auto* const freed = r.blocked.first()) {
    ++visits_;
    leave_line(*freed);
    freed->state = standing::unexamined;
    if (is_ready(*freed)) line_up(*freed);
  }
  remove_from_indices(*r);
  --count_;
  if (r->plan) --planned_;
  bytes_ -= r->counted_bytes;
  charged_ -= charge_of(*r, r->counted_bytes);
  uncount_shared(r, *r);
  uncount_sender(*r, *r.share);
  if (lane_ != nullptr) {
    lane_->note_left(r->sender);
    note_charge();
  }
}

void request_queue::note_charge() noexcept {
  lane_->note_bytes(noted_charge_, charged_);
  noted_charge_ = charged_;
}

}  // namespace sluice::operations
