// SPDX-License-Identifier: Apache-2.0
#include "runtime/sync/lease_holder.hpp"

#include "runtime/sync/fork_safe_mutex.hpp"

#include <memory>
#include <mutex>
#include <vector>

namespace sluice::detail {
namespace {

/// All counters. A later thread reuses the counter of a thread that has ended.
struct lease_holders {
  fork_safe_mutex mutex;
  std::vector<std::unique_ptr<lease_holder>> holders;
  std::vector<lease_holder*> unused;

  lease_holder* take() {
    const std::lock_guard lock(mutex);
    if (!unused.empty()) {
      auto* const holder = unused.back();
      unused.pop_back();
      return holder;
    }
    unused.reserve(holders.size() + 1);
    holders.push_back(std::make_unique<lease_holder>());
    return holders.back().get();
  }
  void give_back(lease_holder* holder) noexcept {
    const std::lock_guard lock(mutex);
    if (!holder->holds_any()) unused.push_back(holder);
  }
};

// Never destroyed: threads may end after static destruction.
lease_holders& holders = *new lease_holders;

/// The counter of this thread, or nullptr before its first use.
constinit thread_local lease_holder* current_holder = nullptr;

}  // namespace

lease_holder& lease_holder::of_this_thread() {
  if (current_holder != nullptr) return *current_holder;
  current_holder = holders.take();
  struct at_thread_exit {
    ~at_thread_exit() {
      holders.give_back(current_holder);
      // A launch from a later destructor takes another counter, which is never reused.
      current_holder = nullptr;
    }
  };
  thread_local const at_thread_exit exit_guard;
  return *current_holder;
}

void lease_holder::remove(std::uint32_t leases) noexcept {
  if (this == current_holder) {
    taken_count_.store(taken_count_.load(std::memory_order_relaxed) - leases,
                       std::memory_order_relaxed);
  } else {
    foreign_returns_.fetch_add(leases, std::memory_order_relaxed);
  }
}

}  // namespace sluice::detail
