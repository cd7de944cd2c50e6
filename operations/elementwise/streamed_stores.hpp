// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <hwy/cache_control.h>

#include <cstdint>

namespace sluice::host {

/// Whether a result of `bytes` bytes is stored past the caches. Most of it would leave them before
/// another operation reads it, and a processor reads each line from memory that it stores to the
/// caches.
[[nodiscard]] constexpr bool is_streamed(std::int64_t bytes) noexcept {
  return bytes >= std::int64_t{8} << 20U;
}

/// Orders the calling thread's stores past the caches before its later ones. It waits for memory.
inline void finish_streams() {
  hwy::FlushStream();
}

}  // namespace sluice::host
