// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <cstdint>

namespace sluice::detail {

/// Raises `value` to `candidate`, with release order. Does nothing if `value` is not smaller.
inline void store_maximum(std::atomic<std::uint64_t>& value, std::uint64_t candidate) noexcept {
  auto current = value.load(std::memory_order_relaxed);
  while (current < candidate &&
         !value.compare_exchange_weak(current, candidate, std::memory_order_release,
                                      std::memory_order_relaxed)) {
  }
}

}  // namespace sluice::detail
