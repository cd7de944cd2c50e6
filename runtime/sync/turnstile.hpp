// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "runtime/sync/lease_holder.hpp"

namespace sluice::detail {

/// The passage of the calling thread through the turnstile. One thread of the process is inside at
/// a time, in order of arrival.
///
///     const turnstile_passage inside(lease_holder::of_this_thread());
///     // take the leases one by one, and keep them
///
/// A launch enters after `attempts_before_turnstile` failed attempts to take all of its leases.
/// Inside, it takes its leases one by one, keeps them, and reserves the block that it waits for. No
/// other thread waits while it holds a lease. Each lease in its way belongs to a thread that waits
/// for nothing, so there is no cycle. A thread without a lease treats the reservation as a
/// conflict, so each awaited block becomes free.
class turnstile_passage {
 public:
  /// Waits for the threads that arrived earlier.
  /// @throws error `stream_misuse` if the calling thread holds a lease
  explicit turnstile_passage(lease_holder& holder);
  turnstile_passage(const turnstile_passage&) = delete;
  turnstile_passage& operator=(const turnstile_passage&) = delete;
  ~turnstile_passage();

 private:
  lease_holder& holder_;
};

/// The number of failed attempts after which a launch enters the turnstile. An attempt fails only
/// because another launch was made meanwhile. A smaller number makes contended launches alternate,
/// at the cost of one wake-up for each. A larger number delays large launches.
constexpr int attempts_before_turnstile = 8;

/// Resets the turnstile in a child of `fork`, where the parent's threads do not exist.
void open_turnstile_in_child() noexcept;

/// Refuses a launch that would have to wait while its thread holds a lease.
/// @throws error `stream_misuse`, always
[[noreturn]] void refuse_to_wait();

}  // namespace sluice::detail
