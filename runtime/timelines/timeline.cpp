// SPDX-License-Identifier: Apache-2.0
#include "runtime/timelines/timeline.hpp"

#include "runtime/devices/library_call.hpp"
#include "runtime/sync/release_list.hpp"
#include "runtime/sync/store_maximum.hpp"
#include "runtime/timelines/runtime_context.hpp"

#include <algorithm>
#include <bit>
#include <chrono>
#include <iterator>
#include <thread>
#include <utility>

namespace sluice::detail {
namespace {

constexpr std::size_t first_capacity = 32;

}  // namespace

cross_runtime_dependency::cross_runtime_dependency(std::shared_ptr<runtime_core> owner,
                                                   timeline& source)
    : core(std::move(owner)), stream(&source) {
  outcome.emplace(source.outcome_readers());
}

timeline::timeline(runtime_context& context, stream_id id, native_stream* native, bool owned)
    : context_(context),
      device_(context.device()),
      id_(id),
      native_(native),
      owned_(owned),
      acquires_(device_.needs_acquire()),
      waits_by_stream_(std::make_unique<chunked_table<std::uint64_t, 64, 1024>>()) {
  rings_ = make_ring(1, first_capacity, nullptr);
  newest_ring_.store(rings_.get(), std::memory_order_release);
  capacity_.store(first_capacity, std::memory_order_relaxed);
  // Others may capture an adopted stream between a reservation and its ticket.
  if (auto* const words = owned_ ? context_.words() : nullptr) word_ = words->take();
}

timeline::~timeline() {
  retire();
  give_back_word();
  destroy_events(rings_.get());
}

void timeline::destroy_events(const ring* newest) noexcept {
  std::size_t events = 0;
  for (const auto* r = newest; r != nullptr; r = r->previous.get()) {
    for (const auto& s : r->slots) device_.destroy_event(s.event);
    events += r->slots.size();
  }
  context_.count_events(-static_cast<std::ptrdiff_t>(events));
}

std::unique_ptr<timeline::ring> timeline::make_ring(std::uint64_t start, std::size_t capacity,
                                                    std::unique_ptr<ring> previous) {
  auto result = std::make_unique<ring>();
  result->start = start;
  result->mask = capacity - 1;
  result->slots = std::vector<slot>(capacity);
  try {
    for (auto& s : result->slots) s.event = device_.create_event();
  } catch (...) {
    for (auto& s : result->slots) {
      if (s.event != nullptr) device_.destroy_event(s.event);
    }
    throw;
  }
  context_.count_events(static_cast<std::ptrdiff_t>(capacity));
  result->previous = std::move(previous);
  return result;
}

timeline::slot& timeline::slot_of(std::uint64_t ticket) const noexcept {
  auto* r = newest_ring_.load(std::memory_order_acquire);
  while (ticket < r->start) r = r->previous.get();
  return r->slots[(ticket - r->start) & r->mask];
}

void timeline::reserve(std::size_t count) {
  // Work enqueued during the capture would not run, so its event would never complete.
  if (captured()) {
    throw error(errc::stream_misuse, "the adopted stream is being captured");
  }
  ask_now_and_then();
  const std::lock_guard lock(submission_);
  if (rings_ == nullptr) {
    reserved_ += count;  // retired and complete, so no submission follows
    return;
  }
  const auto submitted = submitted_.load(std::memory_order_relaxed);
  const auto* r = newest_ring_.load(std::memory_order_relaxed);
  // Acquire: a slot is reused only after the advancing thread has finished with it.
  const auto completed_ticket = std::max(watermark(), r->start - 1);
  if (submitted + reserved_ + count - completed_ticket > r->mask + 1) {
    // Tickets that are reserved and not taken use the new ring, too.
    const auto capacity = std::max((r->mask + 1) * 2, std::bit_ceil(reserved_ + count));
    auto new_ring = make_ring(submitted + 1, capacity, nullptr);
    new_ring->previous = std::move(rings_);
    rings_ = std::move(new_ring);
    newest_ring_.store(rings_.get(), std::memory_order_release);
    ring_start_.store(rings_->start, std::memory_order_relaxed);
    capacity_.store(rings_->mask + 1, std::memory_order_relaxed);
  }
  reserved_ += count;
}

void timeline::ask_now_and_then() noexcept {
  const auto submitted = submitted_.load(std::memory_order_relaxed);
  // The values are read at different times; an inconsistent pair costs one superfluous query.
  const auto start = ring_start_.load(std::memory_order_relaxed) - 1;
  const auto tickets_in_use =
      submitted - std::max(watermark_.load(std::memory_order_relaxed), start);
  const auto capacity = capacity_.load(std::memory_order_relaxed);
  if (tickets_in_use <= capacity / 2) return;
  // On a stalled stream every launch would query in vain.
  if (submitted < query_ticket_.load(std::memory_order_relaxed) && tickets_in_use < capacity)
    return;
  query_ticket_.store(submitted + capacity / 8, std::memory_order_relaxed);
  advance();
}

void timeline::unreserve(std::size_t count) noexcept {
  const std::lock_guard lock(submission_);
  reserved_ -= count;
}

void timeline::require_open() const {
  if (retired()) throw error(errc::stream_misuse, "the stream has been destroyed");
}

std::uint64_t timeline::submit(dependency_points&& dependencies, const error* failure,
                               std::uint64_t first,
                               std::unique_ptr<cross_runtime_dependency> upstream,
                               launch_errors* errors) {
  const std::lock_guard lock(submission_);
  --reserved_;
  require_open();
  return take_ticket(std::move(dependencies), failure, first, upstream, errors);
}

std::uint64_t timeline::take_ticket(dependency_points&& dependencies, const error* failure,
                                    std::uint64_t first,
                                    std::unique_ptr<cross_runtime_dependency>& upstream,
                                    launch_errors* errors) {
  const auto ticket = submitted_.load(std::memory_order_relaxed) + 1;
  auto& s = slot_of(ticket);
  fill(ticket, first, std::move(dependencies));
  const bool by_word = write_word(ticket);
  try {
    device_.record(s.event, ticket, native_);
  } catch (...) {
    word_is_spoiled_ = word_is_spoiled_ || by_word;  // another launch gets this ticket
    throw;
  }
  if (by_word) word_ticket_.store(ticket, std::memory_order_release);
  s.upstream = std::move(upstream);
  s.errors = errors;
  finish(ticket, ticket, failure);
  submitted_.store(ticket, std::memory_order_release);
  return ticket;
}

void timeline::fill(std::uint64_t ticket, std::uint64_t first,
                    dependency_points&& dependencies) noexcept {
  auto& s = slot_of(ticket);
  // The caller receives the slot's memory, so large launches allocate none each time.
  if (dependencies.empty()) {
    s.dependencies.clear();
  } else {
    std::swap(s.dependencies, dependencies);
  }
  s.first = first;
}

void timeline::finish(std::uint64_t ticket, std::uint64_t event_ticket,
                      const error* failure) noexcept {
  slot_of(ticket).event_ticket.store(event_ticket, std::memory_order_relaxed);
  if (failure != nullptr) fail(ticket, *failure);
  if (slot_of(ticket).depends()) newest_dependent_.store(ticket, std::memory_order_relaxed);
}

bool timeline::write_word(std::uint64_t ticket) noexcept {
  const auto value = static_cast<std::uint32_t>(ticket);
  // Nobody waits for the last ticket of a retired stream, whose memory may be freed before.
  if (word_ == nullptr || word_is_spoiled_ || context_.words()->refused() || retired() ||
      device_.lost() || watermark_.load(std::memory_order_relaxed) + 1 != ticket ||
      word_->load(std::memory_order_relaxed) == value) {
    return false;
  }
  try {
    device_.write_word(native_, *word_, value);
    return true;
  } catch (...) {
    word_is_spoiled_ = true;  // the driver may have queued it
    context_.words()->note_refused_write();
    return false;
  }
}

void timeline::give_back_word() noexcept {
  auto* const word = std::exchange(word_, nullptr);
  if (word == nullptr || word_is_spoiled_ || device_.lost()) return;
  const auto written = word_ticket_.load(std::memory_order_relaxed);
  if (word->load(std::memory_order_relaxed) != static_cast<std::uint32_t>(written)) return;
  context_.words()->give_back(*word);
}

event_state timeline::query(std::uint64_t ticket) noexcept {
  const auto record = event_of(ticket);
  if (word_ != nullptr) {
    // The exit of the process unloads the driver, to which the memory of the word belongs.
    const library_call call;
    if (device_.lost()) return event_state::lost;
    const auto written = word_ticket_.load(std::memory_order_acquire);
    if (record.value <= written &&
        word_->load(std::memory_order_acquire) == static_cast<std::uint32_t>(written)) {
      return event_state::complete;
    }
  }
  return device_.query(record.event, record.value);
}

std::uint64_t timeline::advance() noexcept {
  if (!advancing_.try_lock()) return watermark();
  std::uint64_t completed_ticket = 0;
  {
    const std::lock_guard lock(advancing_, std::adopt_lock);
    completed_ticket = advance_locked();
  }
  if (failures_.take_forget_request()) context_.forget_failures_later(*this);
  return completed_ticket;
}

std::uint64_t timeline::advance_locked() noexcept {
  auto completed_ticket = watermark_.load(std::memory_order_relaxed);
  const auto newest = submitted_.load(std::memory_order_acquire);
  if (completed_ticket == newest) return completed_ticket;
  if (device_.lost()) {
    // No reader will ask whether the unsettled tickets fail.
    drop_upstream();
    return completed_ticket;
  }
  if (context_.tasks_may_fail()) {
    // The outcome of each ticket is queried, in order: a query of the host device is cheap.
    while (completed_ticket != newest) {
      const auto state = query(completed_ticket + 1);
      if (state == event_state::pending || state == event_state::lost) break;
      if (!settle(completed_ticket + 1, state)) break;
      watermark_.store(++completed_ticket, std::memory_order_release);
    }
    return completed_ticket;
  }
  // Only tickets that depend on others can fail.
  while (completed_ticket != newest) {
    const auto last = next_dependent(completed_ticket + 1, newest);
    const auto reached_ticket = newest_reached(completed_ticket, last);
    if (reached_ticket == completed_ticket) break;
    const bool settled =
        reached_ticket != last || !slot_of(last).depends() || settle(last, event_state::complete);
    completed_ticket = settled ? reached_ticket : last - 1;
    watermark_.store(completed_ticket, std::memory_order_release);
    if (completed_ticket != last) break;
  }
  return completed_ticket;
}

std::uint64_t timeline::newest_reached(std::uint64_t completed_ticket,
                                       std::uint64_t last) noexcept {
  auto state = query(completed_ticket + 1);
  if (state == event_state::pending || state == event_state::lost) return completed_ticket;
  // A query answered "complete" costs ten times one answered "pending", hence the bisection. The
  // event of a ticket stands for all tickets up to the one that it was recorded at.
  const auto newest_of_event = [&](std::uint64_t ticket) {
    return std::min(last, event_of(ticket).value);
  };
  completed_ticket = newest_of_event(completed_ticket + 1);
  auto open = last;
  while (completed_ticket < open) {
    const auto queried = open == last ? last : completed_ticket + (open - completed_ticket + 1) / 2;
    state = query(queried);
    if (state == event_state::lost) break;
    if (state == event_state::pending) {
      open = queried - 1;
    } else {
      completed_ticket = newest_of_event(queried);
    }
  }
  return completed_ticket;
}

std::uint64_t timeline::next_dependent(std::uint64_t ticket, std::uint64_t newest) const noexcept {
  if (newest_dependent_.load(std::memory_order_relaxed) < ticket) return newest;
  while (ticket < newest && !slot_of(ticket).depends()) ++ticket;
  return ticket;
}

bool timeline::settle(std::uint64_t ticket, event_state state) noexcept {
  auto& s = slot_of(ticket);
  if (state == event_state::failed) {
    note_failure(ticket, device_.failure_of(s.event), true);
  } else if (const auto failure = failures_.found_between(s.first, ticket)) {
    // Another thread took a ticket of this stream while this launch was being enqueued.
    fail(ticket, *failure);
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
      if (const auto cause = source->failure_of(dependency.ticket)) {
        fail(ticket, upstream_failure(*cause));
        break;
      }
    }
    if (s.upstream && !settle_upstream(ticket, *s.upstream)) return false;
  }
  s.dependencies.clear();
  let_go(s);
  if (s.errors != nullptr) settle_errors(ticket, s, state);
  return true;
}

void timeline::settle_errors(std::uint64_t ticket, slot& s, event_state state) noexcept {
  auto& errors = *std::exchange(s.errors, nullptr);
  if (state == event_state::complete) {
    // The state of an event orders nothing: the word of the work before it is read after this.
    if (acquires_) {
      const auto record = event_of(ticket);
      device_.acquire(record.event, record.value);
    }
    if (const auto found = error_words::found(errors)) fail(ticket, *found);
  }
  errors.pool->give_back(errors);
}

bool timeline::settle_upstream(std::uint64_t ticket,
                               const cross_runtime_dependency& upstream) noexcept {
  auto& source = *upstream.stream;
  // The dependency has completed, but its timeline may not know yet.
  if (!source.completed(upstream.ticket) && source.advance() < upstream.ticket) {
    if (!source.device_.lost()) return false;
    fail(ticket, upstream_failure(source.device_.loss()));
  } else if (const auto cause = source.failure_of(upstream.ticket)) {
    fail(ticket, upstream_failure(*cause));
  }
  return true;
}

void timeline::let_go(slot& s) noexcept {
  if (!s.upstream) return;
  s.upstream->outcome.reset();
  context_.releases().push(s.upstream.release());
}

void timeline::note_failure(std::uint64_t ticket, const error& cause, bool found_there) noexcept {
  // If the failure cannot be remembered, no later result can be trusted.
  if (!failures_.add(ticket, cause, found_there)) device_.lose(cause);
}

void timeline::forget_upstream() noexcept {
  const std::lock_guard lock(advancing_);
  drop_upstream();
}

void timeline::drop_upstream() noexcept {
  const auto newest = submitted_.load(std::memory_order_acquire);
  auto ticket = std::max(watermark(), dropped_upstream_);
  while (ticket < newest) let_go(slot_of(++ticket));
  dropped_upstream_ = newest;
}

void timeline::wait_until(std::uint64_t ticket, const sluice::device* waiting_device) {
  using clock = std::chrono::steady_clock;
  const auto spin_end = clock::now() + std::chrono::microseconds(100);
  auto pause = std::chrono::microseconds(5);
  while (!completed(ticket) && advance() < ticket) {
    device_.require_usable();
    if (waiting_device != nullptr) waiting_device->require_usable();
    if (clock::now() < spin_end) {
      std::this_thread::yield();
    } else {
      std::this_thread::sleep_for(pause);
      pause = std::min(pause * 2, std::chrono::microseconds(500));
    }
  }
  acquire(ticket);
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

void timeline::acquire(std::uint64_t ticket) noexcept {
  if (ticket == 0 || !acquires_) return;
  const hazard_pointer reader(*this, slots_given_up_);
  if (!reader.open()) return;
  const auto record = event_of(ticket);
  device_.acquire(record.event, record.value);
}

void timeline::let_wait(sluice::device& target, native_stream* stream, std::uint64_t ticket) {
  const hazard_pointer reader(*this, slots_given_up_);
  if (!reader.open()) return;
  const auto record = event_of(ticket);
  target.wait(stream, record.event, record.value);
}

bool timeline::wait_for(timeline& source, std::uint64_t ticket) {
  if (ticket == 0 || &source == this) return false;
  if (context_.completion_orders() && source.completed(ticket)) {
    // The completed point replaces a wait.
    source.acquire(ticket);
    return false;
  }
  if (waits_by_stream_ == nullptr)
    throw error(errc::stream_misuse, "the stream has been destroyed");
  if (waits_by_stream_->load(source.id_.index) >= ticket) return false;
  auto* cached = waits_by_stream_->at(source.id_.index);
  const hazard_pointer reader(source, source.slots_given_up_);
  if (!reader.open()) return false;  // it has completed meanwhile
  const auto record = source.event_of(ticket);
  if (!unless_retired(
          [&](native_stream* native) { device_.wait(native, record.event, record.value); })) {
    throw error(errc::stream_misuse, "the stream has been destroyed");
  }
  waits_.fetch_add(1, std::memory_order_relaxed);
  // Updated after the wait is queued, so that another thread does not skip it too early.
  if (cached != nullptr) store_maximum(*cached, ticket);
  return true;
}

}  // namespace sluice::detail
