// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sluice/actors/caf.hpp>
#include <sluice/actors/operation_actor.hpp>
#include <sluice/operations/bounded_inbox.hpp>
#include <sluice/operations/request_options.hpp>

#include <cstdint>
#include <limits>
#include <new>
#include <thread>

namespace sluice::detail {

/// How library actors are spawned. Hidden: an actor system that ends waits for all other actors
/// first, and would wait for ever for those that a `scoped_device` keeps.
inline constexpr auto library_actor_options = caf::detached + caf::hidden;

/// Sends `wake` to `owner` unless it has ended. Any thread may call it.
inline void post_wake(const caf::actor_addr& owner) noexcept {
  const auto actor = caf::actor_cast<caf::strong_actor_ptr>(owner);
  while (actor) {
    try {
      enqueue(actor, nullptr, caf::make_message_id(), wake{});
      return;
    } catch (const std::bad_alloc&) {
      // Without the message the requests that wait would never be answered.
      std::this_thread::yield();
    }
  }
}

/// The messages in front of an actor.
using lane_inbox = bounded_inbox<caf::mailbox_element_ptr>;

/// The sender of a message. Messages without a sender share one.
[[nodiscard]] inline request_sender sender_of(const caf::strong_actor_ptr& sender) noexcept {
  return {sender ? std::uint64_t{sender->id()} : std::numeric_limits<std::uint64_t>::max()};
}

}  // namespace sluice::detail
