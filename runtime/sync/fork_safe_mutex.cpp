// SPDX-License-Identifier: Apache-2.0
#include "runtime/sync/fork_safe_mutex.hpp"

#include <atomic>

namespace sluice::detail {
namespace {

constinit std::atomic<fork_safe_mutex*> newest{nullptr};
constinit fork_safe_mutex* locked_from = nullptr;  // later ones were not locked

}  // namespace

fork_safe_mutex::fork_safe_mutex() noexcept {
  next_ = newest.load(std::memory_order_relaxed);
  while (!newest.compare_exchange_weak(next_, this, std::memory_order_release,
                                       std::memory_order_relaxed)) {
  }
}

void fork_safe_mutex::lock_all() noexcept {
  locked_from = newest.load(std::memory_order_acquire);
  for (auto* one = locked_from; one != nullptr; one = one->next_) one->lock();
}

void fork_safe_mutex::unlock_all() noexcept {
  for (auto* one = locked_from; one != nullptr; one = one->next_) one->unlock();
}

}  // namespace sluice::detail
