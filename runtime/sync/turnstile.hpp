// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "runtime/sync/lease_holder.hpp"

namespace sluice::detail {

/// The passage of the calling thread through the turnstile, which one thread of the process passes
/// at a time, in the order of arrival.
///
/// A launch whose attempts to take all of its leases at a time keep failing enters it. Inside, the
/// launch takes its leases one by one, keeps them, and reserves the block that it waits for. No
/// other thread waits while it holds a lease, so there is no cycle: every lease in the way is
/// returned by a thread that waits for nothing. Threads that hold no lease respect the reservation,
/// so each block that is waited for becomes free.
class turnstile_passage {
 public:
  /// Waits for the threads that came before. @throws error `stream_misuse` when the calling thread
  /// holds a lease
  explicit turnstile_passage(lease_holder& here);
  turnstile_passage(const turnstile_passage&) = delete;
  turnstile_passage& operator=(const turnstile_passage&) = delete;
  ~turnstile_passage();

 private:
  lease_holder& here_;
};

/// After so many failed attempts a launch enters the turnstile. Each attempt fails because another
/// launch was made meanwhile. A smaller number makes contended launches take turns, each after a
/// wake-up; a larger one delays large launches.
constexpr int attempts_before_turnstile = 8;

/// In a forked child: the threads that were inside or waiting are the parent's.
void open_turnstile_in_child() noexcept;

/// Throws the error of a launch that would have to wait although its thread holds a lease.
/// @throws error `stream_misuse`
[[noreturn]] void refuse_to_wait();

}  // namespace sluice::detail
