// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sluice/runtime/error.hpp>

#include <cstdint>
#include <functional>
#include <new>

namespace sluice::test {

/// Makes the n-th further allocation of the calling thread fail, once. 0: none.
///
/// `also` is called before the failure and must exist until then.
void fail_allocation(std::uint64_t nth, const std::function<void()>* also = nullptr) noexcept;
/// Makes all further allocations of the calling thread fail from the n-th on, until one of the two
/// functions is called with 0.
void fail_allocations_from(std::uint64_t nth) noexcept;
/// Whether the failure, or the first one, is still ahead.
[[nodiscard]] bool allocation_is_to_fail() noexcept;
/// The number of allocations that the calling thread has made.
[[nodiscard]] std::uint64_t allocations_made() noexcept;

/// Calls `attempt` repeatedly. The first call runs with the first allocation of this thread
/// failing, the second call with the second, and so on.
///
/// Ends when a call makes no allocation that fails. Calls `unharmed` after each call that threw.
/// Returns the number of allocations that failed.
/// @throws error from `attempt` with a code other than `out_of_memory`
template <class Attempt, class Unharmed>
int with_each_allocation_failing(Attempt attempt, Unharmed unharmed) {
  for (int nth = 1;; ++nth) {
    try {
      fail_allocation(static_cast<std::uint64_t>(nth));
      attempt();
      const bool struck = !allocation_is_to_fail();
      fail_allocation(0);
      if (!struck) return nth - 1;
    } catch (const std::bad_alloc&) {
      fail_allocation(0);
      unharmed();
    } catch (const error& e) {
      fail_allocation(0);
      if (e.code() != errc::out_of_memory) throw;
      unharmed();
    }
  }
}

}  // namespace sluice::test
