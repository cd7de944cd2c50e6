// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "runtime/host/host_stream.hpp"

#include <atomic>

namespace sluice::host {

/// Where one stream waits, once, for another one, which may be of another device. Belongs to the
/// two tasks that meet here, whose devices may go one before the other, and goes with the later of
/// them. The edge is that of an event: from the stream that is waited for to the one that waits.
class host_rendezvous {
 public:
  host_rendezvous() = default;
  host_rendezvous(const host_rendezvous&) = delete;
  host_rendezvous& operator=(const host_rendezvous&) = delete;
  ~host_rendezvous() = default;

  /// For the stream that is waited for; ends its part.
  void reach(host_stream& source) noexcept;
  /// For the stream that waits; ends its part. Returns early when its device is lost.
  void wait(host_stream& stream) noexcept;

 private:
  enum class part : std::uint8_t { both, source_left, waiter_left };
  host_event event_;
  std::atomic<part> left_{part::both};
};

}  // namespace sluice::host
