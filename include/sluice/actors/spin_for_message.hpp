// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sluice/actors/caf.hpp>
#include <sluice/envelope/wait_policy.hpp>

namespace sluice {

/// Spins until `self` has a message, for 50 µs at most, or 10 ms while a service with
/// `wait_policy::latency` exists. The kernel needs several microseconds to wake a thread that
/// sleeps.
///
///     request(self, blas, caf::infinite, gemm{.a = a, .b = b}).then([](const tensor& c) { ... });
///     spin_for_message(self);
///
/// For actors with a thread of their own (`caf::detached`) that wait for replies: call it at the
/// end of a handler. Returns at once if enough threads spin (see `wait_policy`), or if CAF 1.x
/// hides the mailbox.
template <class Self>
void spin_for_message(Self* self) noexcept {
  // CAF 1.x may hide the mailbox of an actor.
  if constexpr (requires { self->mailbox().empty(); }) {
    auto& spinning = detail::spinners::of_process();
    (void)spinning.spin(spinning.of_clients(), [self] { return has_message(self); });
  }
}

}  // namespace sluice
