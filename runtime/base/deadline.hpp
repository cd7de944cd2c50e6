// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <chrono>

namespace sluice::detail {

/// The time at which `timeout` ends. The longest duration means no limit, and becomes about the
/// largest time that the clock can represent.
template <class Rep, class Period>
[[nodiscard]] std::chrono::steady_clock::time_point deadline_after(
    std::chrono::duration<Rep, Period> timeout) noexcept {
  using clock = std::chrono::steady_clock;
  using duration = std::chrono::duration<Rep, Period>;
  const auto now = clock::now();
  const auto limit = std::chrono::duration_cast<duration>(clock::time_point::max() - now);
  return now + std::clamp(timeout, duration(0), limit);
}

}  // namespace sluice::detail
