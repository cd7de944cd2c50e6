// SPDX-License-Identifier: Apache-2.0
#include "runtime/host/host_rendezvous.hpp"

#include <chrono>
#include <thread>

namespace sluice::host {

void host_rendezvous::reach(host_stream& source) noexcept {
  std::optional<error> failure;
  if (source.owner().lost()) failure = source.owner().loss();
  event_.reach(1, std::move(failure));
  // Release: the waiter may delete this. Acquire: orders only after a waiter that left early.
  if (state_.exchange(part::source_left, std::memory_order_acq_rel) == part::waiter_left)
    delete this;
}

void host_rendezvous::wait(host_stream& stream) noexcept {
  stream.set_computing(false);
  // The loss of a device wakes its own events only, so this wait polls.
  while (!event_.wait_for(1, stream.owner(), std::chrono::milliseconds(10))) {
  }
  if (event_.state(1) == event_state::pending) {
    // The device is lost, so only the order of the two departures matters.
    if (state_.exchange(part::waiter_left, std::memory_order_acq_rel) == part::source_left)
      delete this;
    return;
  }
  if (event_.state(1) == event_state::failed) stream.fail(event_.failure());
  // The source is about to leave. A load orders no thread after this stream.
  while (state_.load(std::memory_order_acquire) != part::source_left) std::this_thread::yield();
  delete this;
}

}  // namespace sluice::host
