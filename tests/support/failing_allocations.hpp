// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sluice/runtime/error.hpp>

#include <gtest/gtest.h>

#include <cstdint>
#include <functional>
#include <new>

namespace sluice::test {

/// Makes the n-th allocation of the calling thread from now on fail, once; `also`, which stays
/// until then, is called before. 0: none.
void fail_allocation(std::uint64_t nth, const std::function<void()>* also = nullptr) noexcept;
/// Makes all allocations of the calling thread from the n-th one on fail, until one of the two is
/// called with 0.
void fail_allocations_from(std::uint64_t nth) noexcept;
/// Whether that allocation, or the first of them, is still to come.
[[nodiscard]] bool allocation_is_to_fail() noexcept;
/// How many allocations the calling thread has made.
[[nodiscard]] std::uint64_t allocations_made() noexcept;

/// Calls `attempt` with the first, the second, the third … allocation of this thread failing, until
/// it succeeds; `unharmed` is called after each failure. Returns the number of failures.
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
      EXPECT_EQ(e.code(), errc::out_of_memory) << e.what();
      unharmed();
    }
  }
}

}  // namespace sluice::test
