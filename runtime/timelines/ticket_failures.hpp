// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "runtime/sync/reader_epochs.hpp"
#include "runtime/sync/spin_lock.hpp"

#include <sluice/runtime/error.hpp>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <map>
#include <mutex>
#include <optional>
#include <vector>

namespace sluice::detail {

/// The failed tickets of one stream, in bounded memory.
///
/// The reasons of the newest `max_reasons` failures are kept. Older failed tickets are known
/// without a reason, in ranges. Beyond `max_forgotten` ranges, the core forgets the older half
/// (`runtime_core::forget_failures`) once no reader may ask for their outcomes. Thread-safe.
class ticket_failures {
 public:
  static constexpr std::size_t max_reasons = 1024;
  static constexpr std::size_t max_forgotten = 4096;
  /// The error of a ticket whose reason has been forgotten.
  [[nodiscard]] static const error& forgotten() noexcept;

  /// The error of `ticket`, which has completed. Empty if it succeeded.
  ///
  /// Takes a mutex only for tickets up to the newest failed one. The answer is certain only for a
  /// reader that has entered `readers`. For others a ticket that succeeded counts as failed once
  /// more than `max_reasons + max_forgotten / 2` later ones have failed.
  [[nodiscard]] std::optional<error> of(std::uint64_t ticket) const;
  /// The first failure that the device found at a ticket from `first` on and before `last`.
  [[nodiscard]] std::optional<error> found_between(std::uint64_t first, std::uint64_t last) const;
  /// The number of entries for failed tickets, with and without a reason.
  [[nodiscard]] std::size_t size() const;

  /// Adds a failure, unless `ticket` already has one. With `found_there` the device found it at
  /// this ticket, so it may belong to work whose ticket was taken later. Returns false if the host
  /// has no memory for it.
  [[nodiscard]] bool add(std::uint64_t ticket, const error& cause, bool found_there) noexcept;

  /// The readers of outcomes. A reader enters before the ticket is taken. For the last write of a
  /// block, it enters under the lock of the block's use state.
  [[nodiscard]] reader_epochs& readers() noexcept { return readers_; }

  /// The last ticket up to `completed` whose outcome may be forgotten, or 0 while few outcomes are
  /// kept.
  [[nodiscard]] std::uint64_t forgettable(std::uint64_t completed) const;
  /// The last ticket of the oldest range without a reason, or the largest number.
  [[nodiscard]] std::uint64_t oldest_forgotten() const;
  /// Forgets the ranges that end at `last` or earlier. Every ticket up to the end of the newest of
  /// them then counts as failed.
  void forget(std::uint64_t last) noexcept;
  /// Requests another attempt to forget, once an earlier reader has left.
  void forget_when_possible() noexcept { wants_to_forget_.store(true, std::memory_order_relaxed); }
  /// Whether an attempt to forget is due. Returns true to one caller for each request.
  [[nodiscard]] bool take_forget_request() noexcept {
    return wants_to_forget_.load(std::memory_order_relaxed) && readers_.earlier_left() &&
           wants_to_forget_.exchange(false, std::memory_order_relaxed);
  }

 private:
  /// A range of tickets that failed for one reason. Its first ticket is the key in `failures_`.
  struct failed_tickets {
    std::uint64_t last;
    error cause;
    bool found_there;
  };
  struct ticket_range {
    std::uint64_t first;
    std::uint64_t last;
    bool found_there;
  };

  /// Reduces the oldest failure to the fact that it failed. Under the mutex.
  void forget_reason();

  alignas(64) std::atomic<std::uint64_t> newest_{0};
  mutable std::mutex mutex_;
  std::map<std::uint64_t, failed_tickets> failures_;  // by their first ticket
  std::vector<ticket_range> forgotten_;               // failures without a reason, older, in order
  std::uint64_t first_outcome_ = 1;  // the outcomes of earlier tickets have been forgotten
  std::atomic<bool> wants_to_forget_{false};
  reader_epochs readers_;

  friend class runtime_core;
  spin_lock forgetting_;            // covers `runtime_core::forget_failures`
  std::uint64_t forget_limit_ = 0;  // the ticket whose grace period has begun
};

/// The error of a launch that depends on one that failed with `cause`. The launches of a chain
/// share one text.
[[nodiscard]] error upstream_failure(const error& cause) noexcept;

}  // namespace sluice::detail
