// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>

namespace sluice::detail {

/// Sleeps while `word` equals `value`, for at most `timeout` if given. Returns after each wake-up,
/// spurious ones included. `std::atomic::wait` would sleep again if the word equals `value` by
/// then. Establishes no order between threads.
void futex_wait(const std::atomic<std::uint32_t>& word, std::uint32_t value,
                const std::chrono::nanoseconds* timeout = nullptr) noexcept;

/// Wakes all threads that sleep on `word`. Establishes no order between threads.
void futex_wake_all(const std::atomic<std::uint32_t>& word) noexcept;

}  // namespace sluice::detail
