// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "runtime/memory/room_wait.hpp"

#include <chrono>

namespace sluice::test {

/// The longest wait of allocations at the limit of a budget, for as long as this exists. 0 for
/// tests of what is refused while work uses memory.
class room_wait_limit {
 public:
  explicit room_wait_limit(std::chrono::milliseconds limit) noexcept {
    detail::room_wait::set_limit(limit);
  }
  room_wait_limit(const room_wait_limit&) = delete;
  room_wait_limit& operator=(const room_wait_limit&) = delete;
  ~room_wait_limit() { detail::room_wait::set_limit(detail::room_wait::usual_limit); }
};

}  // namespace sluice::test
