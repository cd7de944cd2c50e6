// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>

namespace sluice::detail {

/// Sleeps while `word` is `seen`, for at most `longest` if that is given. Returns after each
/// wake-up, also a spurious one: `std::atomic::wait` goes back to sleep if the word is `seen` again
/// by then. Orders nothing.
void futex_wait(const std::atomic<std::uint32_t>& word, std::uint32_t seen,
                const std::chrono::nanoseconds* longest = nullptr) noexcept;

/// Wakes all threads that sleep on `word`. Orders nothing.
void futex_wake_all(const std::atomic<std::uint32_t>& word) noexcept;

}  // namespace sluice::detail
