// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "runtime/host/host_stream.hpp"

#include <atomic>

namespace sluice::host {

/// The point at which one stream waits, once, for another stream, possibly of another device.
///
/// It belongs to the two tasks that meet, because either device may be destroyed first. The later
/// task destroys it. Like an event, it orders the waiting stream after the awaited one and nothing
/// else.
class host_rendezvous {
 public:
  host_rendezvous() = default;
  host_rendezvous(const host_rendezvous&) = delete;
  host_rendezvous& operator=(const host_rendezvous&) = delete;
  ~host_rendezvous() = default;

  /// Ends the part of the awaited stream. On that stream's thread.
  void reach(host_stream& source) noexcept;
  /// Waits for the awaited stream, and ends the part of the waiting one. On its thread. Returns
  /// early if its device is lost.
  void wait(host_stream& stream) noexcept;

 private:
  enum class part : std::uint8_t { both, source_left, waiter_left };
  host_event event_;
  std::atomic<part> state_{part::both};
};

}  // namespace sluice::host
