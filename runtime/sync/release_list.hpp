// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "runtime/sync/spin_lock.hpp"

#include <sluice/runtime/releasable.hpp>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <mutex>

namespace sluice::detail {

/// The intrusive list of the owners of completed launches.
///
/// A push allocates nothing, and takes no lock outside of a release: it is one counter increment
/// and one compare-and-swap loop. The draining thread releases the items, oldest first. A release
/// may push and drain. What it pushes comes before the older items, so that draining an item at a
/// time does not let the list grow by more than one release adds.
///
/// Items whose release may call the driver are pushed with `push_for_driver`. A completion thread
/// calls `drain_some`, which leaves them to the reclaim thread and to `drain`. Thread-safe.
class release_list {
 public:
  release_list() = default;
  release_list(const release_list&) = delete;
  release_list& operator=(const release_list&) = delete;
  ~release_list() { drain(); }

  /// Pushes `item` and takes ownership of it.
  void push(releasable* item) noexcept;
  /// Pushes an item whose release may call the driver, and takes ownership of it. The release of an
  /// item may push the item itself again.
  void push_for_driver(releasable* item) noexcept;

  /// Releases the items pushed so far, then the items that these releases pushed, then the items of
  /// `push_for_driver`.
  void drain() noexcept;
  /// Releases at most `limit` items, none of them from `push_for_driver`. Returns their number.
  std::size_t drain_some(std::size_t limit) noexcept;
  /// Drains, then waits until every drain that other threads have begun has ended, and drains
  /// again. The wait takes at most ten seconds. Inside a release there is no wait.
  void drain_and_wait() noexcept;

  /// Whether `drain_some` would find no item.
  [[nodiscard]] bool empty() const noexcept {
    return inbox_.empty() && !taken_any_.load(std::memory_order_relaxed);
  }
  /// Whether items of `push_for_driver` are left.
  [[nodiscard]] bool waits_for_driver() const noexcept { return !driver_items_.empty(); }
  /// Whether no other thread is draining now. Inside a release the result is always true.
  [[nodiscard]] bool rests() const noexcept;
  /// The number of items that have not been released. Observing a decrease synchronizes with the
  /// release.
  [[nodiscard]] std::size_t size() const noexcept { return size_.load(std::memory_order_acquire); }

 private:
  /// A lock-free stack. All items are taken at once.
  class chain {
   public:
    void push(releasable* item) noexcept;
    /// Takes all items, oldest first.
    [[nodiscard]] releasable* take() noexcept;
    [[nodiscard]] bool empty() const noexcept {
      return newest_.load(std::memory_order_acquire) == nullptr;
    }

   private:
    std::atomic<releasable*> newest_{nullptr};
  };

  class drain_scope;

  [[nodiscard]] releasable* take_all() noexcept;
  [[nodiscard]] releasable* take_some(std::size_t limit) noexcept;
  void release_chain(releasable* oldest) noexcept;
  void release(releasable* item) noexcept;
  void wait_for_drains() noexcept;

  chain inbox_;
  chain driver_items_;
  std::atomic<std::size_t> size_{0};

  // What releases have pushed, then items that `drain_some` took from `inbox_` and did not
  // release, oldest first.
  spin_lock taken_lock_;
  releasable* batch_ = nullptr;
  std::atomic<bool> taken_any_{false};

  // Drains in progress, by the parity of the epoch in which they began. A waiter advances the epoch
  // twice, so later drains do not prolong its wait.
  std::atomic<std::uint32_t> epoch_{0};
  std::atomic<std::uint32_t> draining_[2]{};
  std::mutex wait_mutex_;
};

}  // namespace sluice::detail
