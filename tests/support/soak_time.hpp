// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <cstdlib>

namespace sluice::test {

/// The duration of a soak test: SLUICE_SOAK_SECONDS, or 2 s.
inline std::chrono::seconds soak_time() {
  const char* seconds = std::getenv("SLUICE_SOAK_SECONDS");
  return std::chrono::seconds(seconds != nullptr ? std::atoi(seconds) : 2);
}

}  // namespace sluice::test
