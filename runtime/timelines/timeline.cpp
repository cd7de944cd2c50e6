// SPDX-License-Identifier: Apache-2.0
#include "runtime/timelines/timeline.hpp"

#include "runtime/sync/release_list.hpp"
#include "runtime/timelines/runtime_context.hpp"

#include <algorithm>
#include <chrono>
#include <iterator>
#include <thread>
#include <utility>

namespace sluice::detail {
namespace {

constexpr std::size_t first_capacity = 32;

void store_maximum(std::atomic<std::uint64_t>& value, std::uint64_t candidate) noexcept {
  auto seen = value.load(std::memory_order_relaxed);
  while (seen < candidate &&
         !value.compare_exchange_weak(seen, candidate, std::memory_order_release,
                                      std::memory_order_relaxed)) {
  }
}

// Constructed in advance, for when the host has no memory for a text.
const error& failed_without_words =
    *new error(errc::upstream_failed, "an earlier launch failed");  // never destroyed

const error& reason_forgotten =
    *new error(errc::upstream_failed,
               "a launch failed, or its outcome is no longer known: many launches have failed on "
               "its stream since");  // never destroyed

/// The error of a launch that depends on one that failed with `why`. The launches of a chain share
/// one text.
error upstream_failure(const error& why) noexcept {
  if (why.code() == errc::upstream_failed) return why;
  try {
    return {errc::upstream_failed, std::string("an earlier launch failed: ") + why.what(),
            why.status(), why.where()};
  } catch (...) {
    return failed_without_words;
  }
}

}  // namespace

cross_runtime_dependency::cross_runtime_dependency(std::shared_ptr<runtime_core> of, timeline& on)
    : core(std::move(of)), stream(&on) {
  outcome.emplace(on.outcome_readers());
}

const error& timeline::forgotten_failure() noexcept {
  return reason_forgotten;
}

timeline::timeline(runtime_context& context, stream_id id, native_stream* native, bool owned)
    : context_(context),
      device_(context.device()),
      id_(id),
      native_(native),
      owned_(owned),
      acquires_(device_.needs_acquire()),
      waited_(std::make_unique<chunked_table<std::uint64_t, 64, 1024>>()) {
  rings_ = make_ring(1, first_capacity, nullptr);
  newest_ring_.store(rings_.get(), std::memory_order_release);
  capacity_.store(first_capacity, std::memory_order_relaxed);
}

timeline::~timeline() {
  retire();
  destroy_events(rings_.get());
}

void timeline::destroy_events(const ring* newest) noexcept {
  std::size_t events = 0;
  for (const auto* r = newest; r != nullptr; r = r->older.get()) {
    for (const auto& s : r->slots) device_.destroy_event(s.event);
    events += r->slots.size();
  }
  context_.count_events(-static_cast<std::ptrdiff_t>(events));
}

std::unique_ptr<timeline::ring> timeline::make_ring(std::uint64_t start, std::size_t capacity,
                                                    std::unique_ptr<ring> older) {
  auto made = std::make_unique<ring>();
  made->start = start;
  made->mask = capacity - 1;
  made->slots.resize(capacity);
  try {
    for (auto& s : made->slots) s.event = device_.create_event();
  } catch (...) {
    for (auto& s : made->slots) {
      if (s.event != nullptr) device_.destroy_event(s.event);
    }
    throw;
  }
  context_.count_events(static_cast<std::ptrdiff_t>(capacity));
  made->older = std::move(older);
  return made;
}

timeline::slot& timeline::slot_of(std::uint64_t ticket) const noexcept {
  auto* r = newest_ring_.load(std::memory_order_acquire);
  while (ticket < r->start) r = r->older.get();
  return r->slots[(ticket - r->start) & r->mask];
}

void timeline::reserve() {
  // Work enqueued during the capture would not run, so its event would never complete.
  if (captured()) {
    throw error(errc::stream_misuse, "the stream, an adopted one, is being captured");
  }
  ask_now_and_then();
  const std::lock_guard lock(submission_);
  if (rings_ == nullptr) {
    ++reserved_;  // retired and complete, so no submission follows
    return;
  }
  const auto submitted = submitted_.load(std::memory_order_relaxed);
  const auto* r = newest_ring_.load(std::memory_order_relaxed);
  // Acquire: a slot is reused only after the advancing thread has finished with it.
  const auto done = std::max(watermark(), r->start - 1);
  if (submitted + reserved_ + 1 - done > r->mask + 1) {
    // Tickets that are reserved and not taken use the new ring, too.
    auto larger = make_ring(submitted + 1, (r->mask + 1) * 2, nullptr);
    larger->older = std::move(rings_);
    rings_ = std::move(larger);
    newest_ring_.store(rings_.get(), std::memory_order_release);
    ring_start_.store(rings_->start, std::memory_order_relaxed);
    capacity_.store(rings_->mask + 1, std::memory_order_relaxed);
  }
  ++reserved_;
}

void timeline::ask_now_and_then() noexcept {
  const auto submitted = submitted_.load(std::memory_order_relaxed);
  // The values are read at different times; an inconsistent pair costs one superfluous query.
  const auto before = ring_start_.load(std::memory_order_relaxed) - 1;
  const auto used = submitted - std::max(watermark_.load(std::memory_order_relaxed), before);
  const auto capacity = capacity_.load(std::memory_order_relaxed);
  if (used <= capacity / 2) return;
  // On a stalled stream every launch would query in vain.
  if (submitted < asks_at_.load(std::memory_order_relaxed) && used < capacity) return;
  asks_at_.store(submitted + capacity / 8, std::memory_order_relaxed);
  advance();
}

void timeline::unreserve() noexcept {
  const std::lock_guard lock(submission_);
  --reserved_;
}

std::uint64_t timeline::submit(dependency_points&& dependencies, const error* failure,
                               std::uint64_t first,
                               std::unique_ptr<cross_runtime_dependency> upstream) {
  const std::lock_guard lock(submission_);
  --reserved_;
  if (retired()) throw error(errc::stream_misuse, "the stream has been retired");
  return take_ticket(std::move(dependencies), failure, first, upstream);
}

std::uint64_t timeline::take_ticket(dependency_points&& dependencies, const error* failure,
                                    std::uint64_t first,
                                    std::unique_ptr<cross_runtime_dependency>& upstream) {
  const auto ticket = submitted_.load(std::memory_order_relaxed) + 1;
  auto& s = slot_of(ticket);
  // The caller receives the slot's memory, so large launches allocate none each time.
  if (dependencies.empty()) {
    s.dependencies.clear();
  } else {
    std::swap(s.dependencies, dependencies);
  }
  s.first = first;
  device_.record(s.event, ticket, native_);
  s.upstream = std::move(upstream);
  if (failure != nullptr) fail(ticket, *failure);
  if (s.depends()) newest_dependent_.store(ticket, std::memory_order_relaxed);
  submitted_.store(ticket, std::memory_order_release);
  return ticket;
}

event_state timeline::query(std::uint64_t ticket) noexcept {
  return device_.query(slot_of(ticket).event, ticket);
}

std::uint64_t timeline::advance() noexcept {
  if (!advancing_.try_lock()) return watermark();
  std::uint64_t done = 0;
  {
    const std::lock_guard lock(advancing_, std::adopt_lock);
    done = advance_locked();
  }
  if (wants_to_forget_.load(std::memory_order_relaxed) && outcome_readers_.earlier_left() &&
      wants_to_forget_.exchange(false, std::memory_order_relaxed)) {
    context_.forget_failures_later(*this);
  }
  return done;
}

std::uint64_t timeline::advance_locked() noexcept {
  auto done = watermark_.load(std::memory_order_relaxed);
  const auto newest = submitted_.load(std::memory_order_acquire);
  if (done == newest || device_.lost()) return done;
  if (context_.tasks_may_fail()) {
    // The outcome of each ticket is queried, in order: a query of the host device is cheap.
    while (done != newest) {
      const auto state = query(done + 1);
      if (state == event_state::pending || state == event_state::lost) break;
      if (!settle(done + 1, state)) break;
      watermark_.store(++done, std::memory_order_release);
    }
    return done;
  }
  // Only tickets that depend on others can fail.
  while (done != newest) {
    const auto last = next_dependent(done + 1, newest);
    const auto reached = newest_reached(done, last);
    if (reached == done) break;
    const bool settled =
        reached != last || !slot_of(last).depends() || settle(last, event_state::complete);
    done = settled ? reached : last - 1;
    watermark_.store(done, std::memory_order_release);
    if (done != last) break;
  }
  return done;
}

std::uint64_t timeline::newest_reached(std::uint64_t done, std::uint64_t last) noexcept {
  auto state = query(done + 1);
  if (state == event_state::pending || state == event_state::lost) return done;
  // A query answered "complete" costs ten times one answered "pending", hence the bisection.
  ++done;
  auto open = last;
  while (done < open) {
    const auto asked = open == last ? last : done + (open - done + 1) / 2;
    state = query(asked);
    if (state == event_state::lost) break;
    if (state == event_state::pending) {
      open = asked - 1;
    } else {
      done = asked;
    }
  }
  return done;
}

std::uint64_t timeline::next_dependent(std::uint64_t from, std::uint64_t newest) const noexcept {
  if (newest_dependent_.load(std::memory_order_relaxed) < from) return newest;
  while (from < newest && !slot_of(from).depends()) ++from;
  return from;
}

bool timeline::settle(std::uint64_t ticket, event_state state) noexcept {
  auto& s = slot_of(ticket);
  if (state == event_state::failed) {
    note_failure(ticket, device_.failure_of(s.event), true);
  } else if (const auto before = failure_between(s.first, ticket)) {
    // Another thread took a ticket of this stream while this launch was being enqueued.
    fail(ticket, *before);
  } else {
    for (const auto& dependency : s.dependencies) {
      auto* source = context_.find(dependency.stream);
      if (source == nullptr) continue;
      if (source != this && !source->completed(dependency.ticket)) {
        // The dependency has completed, because this ticket waited for it, but its timeline may not
        // know yet. If another thread is advancing that timeline, the next attempt settles this
        // ticket.
        source->advance();
        if (!source->completed(dependency.ticket)) return false;
      }
      if (const auto why = source->failure_of(dependency.ticket)) {
        fail(ticket, upstream_failure(*why));
        break;
      }
    }
    if (s.upstream && !settle_upstream(ticket, *s.upstream)) return false;
  }
  s.dependencies.clear();
  let_go(s);
  return true;
}

bool timeline::settle_upstream(std::uint64_t ticket,
                               const cross_runtime_dependency& upstream) noexcept {
  auto& source = *upstream.stream;
  // The dependency has completed, but its timeline may not know yet.
  if (!source.completed(upstream.ticket) && source.advance() < upstream.ticket) {
    if (!source.device_.lost()) return false;
    fail(ticket, upstream_failure(source.device_.loss()));
  } else if (const auto why = source.failure_of(upstream.ticket)) {
    fail(ticket, upstream_failure(*why));
  }
  return true;
}

void timeline::let_go(slot& s) noexcept {
  if (!s.upstream) return;
  s.upstream->outcome.reset();
  context_.releases().push(s.upstream.release());
}

void timeline::forget_upstream() noexcept {
  const std::lock_guard lock(advancing_);
  const auto newest = submitted_.load(std::memory_order_acquire);
  for (auto ticket = watermark() + 1; ticket <= newest; ++ticket) let_go(slot_of(ticket));
}

void timeline::wait_until(std::uint64_t ticket, const sluice::device* waiting) {
  using clock = std::chrono::steady_clock;
  const auto spin_end = clock::now() + std::chrono::microseconds(100);
  auto pause = std::chrono::microseconds(5);
  while (!completed(ticket) && advance() < ticket) {
    device_.require_usable();
    if (waiting != nullptr) waiting->require_usable();
    if (clock::now() < spin_end) {
      std::this_thread::yield();
    } else {
      std::this_thread::sleep_for(pause);
      pause = std::min(pause * 2, std::chrono::microseconds(500));
    }
  }
  acquire(ticket);
}

std::optional<error> timeline::failure_of(std::uint64_t ticket) const {
  if (newest_failed_.load(std::memory_order_acquire) < ticket) return std::nullopt;
  const std::lock_guard lock(failures_mutex_);
  if (ticket < outcomes_from_) return reason_forgotten;
  const auto behind = failures_.upper_bound(ticket);
  if (behind != failures_.begin() && std::prev(behind)->second.last >= ticket) {
    return std::prev(behind)->second.why;
  }
  const auto range = std::partition_point(forgotten_.begin(), forgotten_.end(),
                                          [&](const auto& r) { return r.last < ticket; });
  if (range == forgotten_.end() || range->first > ticket) return std::nullopt;
  return reason_forgotten;
}

std::uint64_t timeline::oldest_forgotten() const {
  const std::lock_guard lock(failures_mutex_);
  return forgotten_.empty() ? no_ticket : forgotten_.front().last;
}

std::uint64_t timeline::forgettable() const {
  const std::lock_guard lock(failures_mutex_);
  if (forgotten_.size() < most_forgotten) return 0;
  return std::min(forgotten_[forgotten_.size() / 2].last, watermark());
}

void timeline::forget_outcomes(std::uint64_t last) noexcept {
  const std::lock_guard lock(failures_mutex_);
  const auto kept = std::partition_point(forgotten_.begin(), forgotten_.end(),
                                         [&](const auto& r) { return r.last <= last; });
  if (kept == forgotten_.begin()) return;
  outcomes_from_ = std::prev(kept)->last + 1;
  forgotten_.erase(forgotten_.begin(), kept);
}

std::size_t timeline::known_failures() const {
  const std::lock_guard lock(failures_mutex_);
  return failures_.size() + forgotten_.size();
}

std::uint64_t timeline::oldest_dependency_on(stream_id source) noexcept {
  auto oldest = no_ticket;
  const std::lock_guard lock(advancing_);
  const auto newest = submitted_.load(std::memory_order_acquire);
  for (auto ticket = watermark() + 1; ticket <= newest; ++ticket) {
    if (source == id_) oldest = std::min(oldest, slot_of(ticket).first);
    for (const auto& point : slot_of(ticket).dependencies) {
      if (point.stream == source) oldest = std::min(oldest, point.ticket);
    }
  }
  return oldest;
}

void timeline::forget_reason() {
  const auto oldest = failures_.begin();
  const ticket_range range{oldest->first, oldest->second.last, oldest->second.found_there};
  if (!forgotten_.empty() && forgotten_.back().last + 1 == range.first &&
      forgotten_.back().found_there == range.found_there) {
    forgotten_.back().last = range.last;
  } else if (forgotten_.empty() || forgotten_.back().last < range.first) {
    forgotten_.push_back(range);
  } else {
    // The ticket was settled after newer ones had been forgotten.
    forgotten_.insert(std::partition_point(forgotten_.begin(), forgotten_.end(),
                                           [&](const auto& r) { return r.last < range.first; }),
                      range);
  }
  failures_.erase(oldest);
  if (forgotten_.size() >= most_forgotten) {
    wants_to_forget_.store(true, std::memory_order_relaxed);
  }
}

std::optional<error> timeline::failure_between(std::uint64_t first, std::uint64_t last) const {
  if (first >= last || newest_failed_.load(std::memory_order_acquire) < first) {
    return std::nullopt;
  }
  const std::lock_guard lock(failures_mutex_);
  // A forgotten failure may have been found at one of these tickets.
  if (first < outcomes_from_) return reason_forgotten;
  for (auto range = std::partition_point(forgotten_.begin(), forgotten_.end(),
                                         [&](const auto& r) { return r.last < first; });
       range != forgotten_.end() && range->first < last; ++range) {
    if (range->found_there) return reason_forgotten;
  }
  for (auto f = failures_.lower_bound(first); f != failures_.end() && f->first < last; ++f) {
    if (f->second.found_there) return f->second.why;
  }
  return std::nullopt;
}

void timeline::note_failure(std::uint64_t ticket, const error& why, bool found_there) noexcept {
  const std::lock_guard lock(failures_mutex_);
  const auto behind = failures_.upper_bound(ticket);
  if (behind != failures_.begin()) {
    auto& before = std::prev(behind)->second;
    if (before.last >= ticket) return;  // it already has a reason
    // Copies of an error share its text, so the tickets of a chain make one entry.
    if (before.last + 1 == ticket && before.why.what() == why.what() && !before.found_there &&
        !found_there) {
      before.last = ticket;
      store_maximum(newest_failed_, ticket);
      return;
    }
  }
  try {
    failures_.emplace_hint(behind, ticket, failed_tickets{ticket, why, found_there});
    while (failures_.size() > most_reasons) forget_reason();
  } catch (...) {
    // If the failure cannot be remembered, no later result can be trusted.
    device_.lose(why);
  }
  store_maximum(newest_failed_, ticket);
}

void timeline::acquire(std::uint64_t ticket) noexcept {
  if (ticket == 0 || !acquires_) return;
  const hazard_pointer reading(*this, slots_given_up_);
  if (reading.open()) device_.acquire(slot_of(ticket).event, ticket);
}

void timeline::let_wait(sluice::device& elsewhere, native_stream* stream, std::uint64_t ticket) {
  const hazard_pointer reading(*this, slots_given_up_);
  if (reading.open()) elsewhere.wait(stream, slot_of(ticket).event, ticket);
}

bool timeline::wait_for(timeline& source, std::uint64_t ticket) {
  if (ticket == 0 || &source == this) return false;
  if (context_.completion_orders() && source.completed(ticket)) {
    // The completed point replaces a wait.
    source.acquire(ticket);
    return false;
  }
  if (waited_ == nullptr) throw error(errc::stream_misuse, "the stream has been retired");
  if (waited_->load(source.id_.index) >= ticket) return false;
  auto* cached = waited_->at(source.id_.index);
  const hazard_pointer reading(source, source.slots_given_up_);
  if (!reading.open()) return false;  // it has completed meanwhile
  auto* const event = source.slot_of(ticket).event;
  if (!unless_retired([&](native_stream* native) { device_.wait(native, event, ticket); })) {
    throw error(errc::stream_misuse, "the stream has been retired");
  }
  waits_.fetch_add(1, std::memory_order_relaxed);
  // Updated after the wait is queued, so that another thread does not skip it too early.
  if (cached != nullptr) store_maximum(*cached, ticket);
  return true;
}

bool timeline::captured() noexcept {
  if (owned_) return false;
  const std::lock_guard lock(submission_);  // the stream's owner may destroy it once it is retired
  return !retired() && device_.capturing(native_);
}

bool timeline::hold_core() noexcept {
  auto seen = core_holds_.load(std::memory_order_relaxed);
  while ((seen & runtime_gone_bit) == 0) {
    if (core_holds_.compare_exchange_weak(seen, seen + 1, std::memory_order_relaxed)) {
      return true;
    }
  }
  return false;  // the count must not grow again after it may have reached zero
}

std::shared_ptr<runtime_core> timeline::let_go_of_core() noexcept {
  if (core_holds_.fetch_sub(1, std::memory_order_release) != (runtime_gone_bit | 1)) return {};
  (void)core_holds_.load(std::memory_order_acquire);
  return std::move(core_of_holders_);
}

void timeline::leave_core_to_holders(std::shared_ptr<runtime_core> core) noexcept {
  // Stored before the bit is set, because the last holder may read it at once.
  core_of_holders_ = std::move(core);
  if (core_holds_.fetch_or(runtime_gone_bit, std::memory_order_acq_rel) == 0) {
    core_of_holders_.reset();
  }
}

bool timeline::keep_stream() noexcept {
  const std::lock_guard lock(submission_);
  if (retired()) return false;
  ++keepers_;
  return true;
}

void timeline::let_go_of_stream() noexcept {
  const std::lock_guard lock(submission_);
  if (--keepers_ == 0 && retired() && owned_) device_.destroy_stream(native_);
}

void timeline::synchronize() {
  if (device_.inherited()) device_.require_usable();  // the parent may have held the lock
  const auto newest = submitted_.load(std::memory_order_acquire);
  if (keep_stream()) {
    struct keeper {
      timeline& kept;
      ~keeper() { kept.let_go_of_stream(); }
    } const keeping{*this};
    device_.synchronize(native_);
  }
  // Another thread may have begun to advance before the work finished, so the watermark may lag.
  wait_until(newest);
}

void timeline::retire() noexcept {
  if (device_.inherited()) return;
  if (retired()) {
    const std::lock_guard over(submission_);  // the retiring thread still uses the native stream
    return;
  }
  std::unique_ptr<cross_runtime_dependency> none;
  bool reserved = false;
  try {
    reserve();
    reserved = true;
  } catch (...) {
    // Without a last ticket only a launch that commits after the end of its stream is unprotected.
  }
  {
    const std::lock_guard lock(submission_);
    if (reserved) --reserved_;
    if (retired_.exchange(true, std::memory_order_acq_rel)) return;
    bool behind = false;
    try {
      if (reserved) (void)take_ticket({}, nullptr, no_ticket, none);
      behind = reserved;
    } catch (...) {
      // The device is lost: `quiescent` tells whether work still runs.
    }
    if (owned_ && keepers_ == 0) device_.destroy_stream(native_);
    gone_ = behind || !owned_ || !device_.lost();  // a lost device destroys no stream
  }
  context_.count_stream_retired();
  context_.note_retired(*this);
}

bool timeline::give_up_slots() noexcept {
  if (!advancing_.try_lock()) return false;
  const std::lock_guard lock(advancing_, std::adopt_lock);
  if (newest_ring_.load(std::memory_order_acquire) == nullptr) return true;
  const auto done = watermark_.load(std::memory_order_relaxed);
  // If waits are queued even for completed points, the events stay.
  if (!retired() || done != submitted_.load(std::memory_order_acquire) ||
      !context_.completion_orders()) {
    return false;
  }
  if (!slots_given_up_.load(std::memory_order_relaxed)) {
    // A thread that finds the flag set thereby acquires the effects of all work.
    if (done != 0) device_.acquire(slot_of(done).event, done);
    slots_given_up_.store(true, std::memory_order_seq_cst);
  }
  if (hazard_pointer::any(*this)) return false;  // an earlier reader; the caller retries
  std::unique_ptr<ring> rings;
  decltype(waited_) waited;
  {
    const std::lock_guard submission(submission_);
    if (reserved_ != 0) return false;  // a launch on the retired stream is in progress
    rings = std::move(rings_);
    waited = std::move(waited_);
    newest_ring_.store(nullptr, std::memory_order_relaxed);
  }
  destroy_events(rings.get());
  return true;
}

bool timeline::quiescent() noexcept {
  // A thread may be queuing work in a driver that blocks: then the stream is not quiescent.
  if (!submission_.try_lock()) return false;
  const std::lock_guard lock(submission_, std::adopt_lock);
  native_event* last = nullptr;
  if (newest_ring_.load(std::memory_order_relaxed) == nullptr) return true;  // all has completed
  if (gone_) {
    // An event that was never recorded stands for no work.
    last = slot_of(std::max<std::uint64_t>(submitted_.load(std::memory_order_relaxed), 1)).event;
  }
  return device_.quiescent(native_, last);
}

}  // namespace sluice::detail
