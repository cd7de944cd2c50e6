// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <mutex>

namespace sluice::detail {

/// A mutex for state of the whole process. `fork()` waits until no thread holds it, so a child can
/// lock it. Never destroyed. Code that holds one locks no other one.
class fork_safe_mutex {
 public:
  fork_safe_mutex() noexcept;
  fork_safe_mutex(const fork_safe_mutex&) = delete;
  fork_safe_mutex& operator=(const fork_safe_mutex&) = delete;

  void lock() { mutex_.lock(); }
  void unlock() noexcept { mutex_.unlock(); }

  /// Locks every mutex of this kind that exists. Before a fork, for one thread at a time.
  static void lock_all() noexcept;
  /// After a fork, in the parent and in the child: unlocks what `lock_all` has locked.
  static void unlock_all() noexcept;

 private:
  std::mutex mutex_;
  fork_safe_mutex* next_ = nullptr;
};

}  // namespace sluice::detail
