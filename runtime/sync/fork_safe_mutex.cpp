// SPDX-License-Identifier: Apache-2.0
#include "runtime/sync/fork_safe_mutex.hpp"

#include <atomic>

namespace sluice::detail {
namespace {

constinit std::atomic<fork_safe_mutex*> newest{nullptr};
constinit fork_safe_mutex* first_locked = nullptr;  // later ones were not locked

}  // namespace

fork_safe_mutex::fork_safe_mutex() noexcept {
  next_ = newest.load(std::memory_order_relaxed);
  while (!newest.compare_exchange_weak(next_, this, std::memory_order_release,
                                       std::memory_order_relaxed)) {
  }
}

void fork_safe_mutex::lock_all() noexcept {
  first_locked = newest.load(std::memory_order_acquire);
  for (auto* mutex = first_locked; mutex != nullptr; mutex = mutex->next_) mutex->lock();
}

void fork_safe_mutex::unlock_all() noexcept {
  for (auto* mutex = first_locked; mutex != nullptr; mutex = mutex->next_) mutex->unlock();
}

}  // namespace sluice::detail
