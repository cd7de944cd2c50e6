#include "runtime/sync/one_way_signal.hpp"

#include <climits>
#include <linux/futex.h>
#include <sys/syscall.h>

#include <ctime>
#include <unistd.h>

namespace sluice::detail {

void one_way_signal::raise() noexcept {
  const auto before = word_.fetch_add(2, std::memory_order_release);
  if ((before & 1U) == 0) return;
  // The sleepers announce themselves again if they find nothing; a bit set meanwhile costs one
  // needless wake-up.
  word_.fetch_and(~1U, std::memory_order_relaxed);
  syscall(SYS_futex, &word_, FUTEX_WAKE_PRIVATE, INT_MAX, nullptr, nullptr, 0);
}

void one_way_signal::sleep_while(std::uint32_t seen,
                                 const std::chrono::nanoseconds* longest) noexcept {
  timespec limit{};
  if (longest != nullptr) {
    limit.tv_sec = static_cast<time_t>(longest->count() / 1'000'000'000);
    limit.tv_nsec = static_cast<long>(longest->count() % 1'000'000'000);
  }
  syscall(SYS_futex, &word_, FUTEX_WAIT_PRIVATE, seen, longest != nullptr ? &limit : nullptr,
          nullptr, 0);
}

}  // namespace sluice::detail
