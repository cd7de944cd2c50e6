// SPDX-License-Identifier: Apache-2.0
#include "runtime/timelines/ticket_failures.hpp"

#include "runtime/sync/store_maximum.hpp"

#include <algorithm>
#include <iterator>
#include <limits>
#include <string>

namespace sluice::detail {
namespace {

// Constructed in advance, for when the host has no memory for a text.
const error& failed_without_words =
    *new error(errc::upstream_failed, "an earlier launch failed");  // never destroyed

const error& reason_forgotten =
    *new error(errc::upstream_failed,
               "a launch failed, or its outcome is no longer known: many launches have failed on "
               "its stream since");  // never destroyed

}  // namespace

error upstream_failure(const error& cause) noexcept {
  if (cause.code() == errc::upstream_failed) return cause;
  try {
    return {errc::upstream_failed, std::string("an earlier launch failed: ") + cause.what(),
            cause.status(), cause.where()};
  } catch (...) {
    return failed_without_words;
  }
}

const error& ticket_failures::forgotten() noexcept {
  return reason_forgotten;
}

std::optional<error> ticket_failures::of(std::uint64_t ticket) const {
  // Ticket 0 stands for no work.
  if (ticket == 0 || newest_.load(std::memory_order_acquire) < ticket) return std::nullopt;
  const std::lock_guard lock(mutex_);
  if (ticket < first_outcome_) return reason_forgotten;
  const auto successor = failures_.upper_bound(ticket);
  if (successor != failures_.begin() && std::prev(successor)->second.last >= ticket) {
    return std::prev(successor)->second.cause;
  }
  const auto range = std::partition_point(forgotten_.begin(), forgotten_.end(),
                                          [&](const auto& r) { return r.last < ticket; });
  if (range == forgotten_.end() || range->first > ticket) return std::nullopt;
  return reason_forgotten;
}

std::uint64_t ticket_failures::oldest_forgotten() const {
  const std::lock_guard lock(mutex_);
  return forgotten_.empty() ? std::numeric_limits<std::uint64_t>::max() : forgotten_.front().last;
}

std::uint64_t ticket_failures::forgettable(std::uint64_t completed) const {
  const std::lock_guard lock(mutex_);
  if (forgotten_.size() < max_forgotten) return 0;
  return std::min(forgotten_[forgotten_.size() / 2].last, completed);
}

void ticket_failures::forget(std::uint64_t last) noexcept {
  const std::lock_guard lock(mutex_);
  const auto end = std::partition_point(forgotten_.begin(), forgotten_.end(),
                                        [&](const auto& r) { return r.last <= last; });
  if (end == forgotten_.begin()) return;
  first_outcome_ = std::prev(end)->last + 1;
  forgotten_.erase(forgotten_.begin(), end);
}

std::size_t ticket_failures::size() const {
  const std::lock_guard lock(mutex_);
  return failures_.size() + forgotten_.size();
}

void ticket_failures::forget_reason() {
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
  if (forgotten_.size() >= max_forgotten) {
    wants_to_forget_.store(true, std::memory_order_relaxed);
  }
}

std::optional<error> ticket_failures::found_between(std::uint64_t first, std::uint64_t last) const {
  if (first >= last || newest_.load(std::memory_order_acquire) < first) {
    return std::nullopt;
  }
  const std::lock_guard lock(mutex_);
  // A forgotten failure may have been found at one of these tickets.
  if (first < first_outcome_) return reason_forgotten;
  for (auto range = std::partition_point(forgotten_.begin(), forgotten_.end(),
                                         [&](const auto& r) { return r.last < first; });
       range != forgotten_.end() && range->first < last; ++range) {
    if (range->found_there) return reason_forgotten;
  }
  for (auto f = failures_.lower_bound(first); f != failures_.end() && f->first < last; ++f) {
    if (f->second.found_there) return f->second.cause;
  }
  return std::nullopt;
}

bool ticket_failures::add(std::uint64_t ticket, const error& cause, bool found_there) noexcept {
  const std::lock_guard lock(mutex_);
  const auto successor = failures_.upper_bound(ticket);
  if (successor != failures_.begin()) {
    auto& previous = std::prev(successor)->second;
    if (previous.last >= ticket) return true;  // it already has a reason
    // Copies of an error share its text, so the tickets of a chain make one entry.
    if (previous.last + 1 == ticket && previous.cause.what() == cause.what() &&
        !previous.found_there && !found_there) {
      previous.last = ticket;
      store_maximum(newest_, ticket);
      return true;
    }
  }
  try {
    failures_.emplace_hint(successor, ticket, failed_tickets{ticket, cause, found_there});
    while (failures_.size() > max_reasons) forget_reason();
  } catch (...) {
    return false;
  }
  store_maximum(newest_, ticket);
  return true;
}

}  // namespace sluice::detail
