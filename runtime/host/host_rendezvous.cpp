// SPDX-License-Identifier: Apache-2.0
#include "runtime/host/host_rendezvous.hpp"

#include <chrono>
#include <thread>

namespace sluice::host {

void host_rendezvous::reach(host_stream& source) noexcept {
  std::optional<error> failure;
  if (source.owner().lost()) failure = source.owner().loss();
  event_.reach(1, std::move(failure));
  // The release is for the waiter, which may delete; what is acquired is its leaving early only.
  if (left_.exchange(part::source_left, std::memory_order_acq_rel) == part::waiter_left)
    delete this;
}

void host_rendezvous::wait(host_stream& stream) noexcept {
  // Loss of a device wakes its own events only; this one looks for itself.
  while (!event_.wait_for(1, stream.owner(), std::chrono::milliseconds(10))) {
  }
  if (event_.state(1) == event_state::pending) {
    // Lost. The order in which the two leave matters now, and nothing else does.
    if (left_.exchange(part::waiter_left, std::memory_order_acq_rel) == part::source_left)
      delete this;
    return;
  }
  if (event_.state(1) == event_state::failed) stream.fail(event_.failure());
  // The other one is about to leave. To learn that by a read orders nothing behind this stream.
  while (left_.load(std::memory_order_acquire) != part::source_left) std::this_thread::yield();
  delete this;
}

}  // namespace sluice::host
