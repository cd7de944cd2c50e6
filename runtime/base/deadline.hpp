// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <chrono>

namespace sluice::detail {

/// The time at which `timeout` ends. `milliseconds::max()` means no limit, and becomes about the
/// largest time that the clock can represent.
[[nodiscard]] inline std::chrono::steady_clock::time_point deadline_after(
    std::chrono::milliseconds timeout) noexcept {
  using clock = std::chrono::steady_clock;
  const auto now = clock::now();
  const auto most =
      std::chrono::duration_cast<std::chrono::milliseconds>(clock::time_point::max() - now);
  return now + std::clamp(timeout, std::chrono::milliseconds(0), most);
}

}  // namespace sluice::detail
