// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <hwy/cache_control.h>

#include <cstddef>
#include <cstdint>

namespace sluice::host {

/// Whether a result of `bytes` bytes is stored past the caches. Most of it would leave them before
/// another operation reads it, and a processor reads each line from memory that it stores to the
/// caches.
[[nodiscard]] constexpr bool is_streamed(std::int64_t bytes) noexcept {
  return bytes >= std::int64_t{8} << 20U;
}

/// Likewise a result of copies of `run` bytes each. Copies of few bytes gain nothing.
[[nodiscard]] constexpr bool is_streamed(std::int64_t bytes, std::int64_t run) noexcept {
  return is_streamed(bytes) && run >= 4096;
}

/// Copies `count` bytes past the caches; see `finish_streams`.
void stream_bytes(const void* x, std::size_t count, void* y);

/// Orders the calling thread's stores past the caches before its later ones. It waits for memory.
inline void finish_streams() {
  hwy::FlushStream();
}

}  // namespace sluice::host
