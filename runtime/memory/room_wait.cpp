// SPDX-License-Identifier: Apache-2.0
#include "runtime/memory/room_wait.hpp"

#include <algorithm>
#include <atomic>
#include <thread>

namespace sluice::detail {
namespace {

constinit thread_local unsigned open_scopes = 0;
std::atomic<std::chrono::milliseconds> limit{room_wait::usual_limit};

}  // namespace

no_room_wait_scope::no_room_wait_scope() noexcept {
  ++open_scopes;
}
no_room_wait_scope::~no_room_wait_scope() {
  --open_scopes;
}
bool no_room_wait_scope::is_open() noexcept {
  return open_scopes != 0;
}

bool room_wait::asks_again(std::size_t freed_bytes, bool may_wait) noexcept {
  constexpr std::size_t most_attempts = 64;
  if (freed_bytes != 0 && ++attempts_ <= most_attempts) return true;
  if (!may_wait || no_room_wait_scope::is_open()) return false;
  const auto now = std::chrono::steady_clock::now();
  if (!end_) end_ = now + limit.load(std::memory_order_relaxed);
  if (now >= *end_) return false;
  std::this_thread::sleep_for(pause_);
  pause_ = std::min(2 * pause_, std::chrono::microseconds(1000));
  return true;
}

void room_wait::set_limit(std::chrono::milliseconds timeout) noexcept {
  limit.store(timeout, std::memory_order_relaxed);
}

}  // namespace sluice::detail
