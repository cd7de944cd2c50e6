// SPDX-License-Identifier: Apache-2.0
#include "runtime/sync/futex.hpp"

#include <climits>
#include <linux/futex.h>
#include <sys/syscall.h>

#include <ctime>
#include <unistd.h>

namespace sluice::detail {

static_assert(sizeof(std::atomic<std::uint32_t>) == sizeof(std::uint32_t));

void futex_wait(const std::atomic<std::uint32_t>& word, std::uint32_t value,
                const std::chrono::nanoseconds* timeout) noexcept {
  timespec limit{};
  if (timeout != nullptr) {
    limit.tv_sec = static_cast<time_t>(timeout->count() / 1'000'000'000);
    limit.tv_nsec = static_cast<long>(timeout->count() % 1'000'000'000);
  }
  syscall(SYS_futex, &word, FUTEX_WAIT_PRIVATE, value, timeout != nullptr ? &limit : nullptr,
          nullptr, 0);
}

void futex_wake_all(const std::atomic<std::uint32_t>& word) noexcept {
  syscall(SYS_futex, &word, FUTEX_WAKE_PRIVATE, INT_MAX, nullptr, nullptr, 0);
}

}  // namespace sluice::detail
