// SPDX-License-Identifier: Apache-2.0
#include "runtime/sync/one_way_signal.hpp"

#include "runtime/sync/futex.hpp"

namespace sluice::detail {

void one_way_signal::raise() noexcept {
  const auto previous = word_.fetch_add(2, std::memory_order_release);
  if ((previous & 1U) == 0) return;
  // Sleepers set the bit again if they find nothing. A bit set in between costs one needless
  // wake-up.
  word_.fetch_and(~1U, std::memory_order_relaxed);
  futex_wake_all(word_);
}

void one_way_signal::sleep_while(std::uint32_t word,
                                 const std::chrono::nanoseconds* timeout) noexcept {
  futex_wait(word_, word, timeout);
}

}  // namespace sluice::detail
