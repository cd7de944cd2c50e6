// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "runtime/sync/spin_lock.hpp"

#include <sluice/runtime/releasable.hpp>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <mutex>

namespace sluice::detail {

/// The intrusive list of what completed launches owned. A push is one atomic exchange of a pointer
/// and allocates nothing; the thread that drains releases the items, oldest first. A release may
/// push and drain itself.
///
/// Items whose release may call the driver are pushed with `push_for_driver`. `drain_some`, which
/// the completion thread calls, leaves them to the reclaim thread and to `drain`. Thread-safe.
class release_list {
 public:
  release_list() = default;
  release_list(const release_list&) = delete;
  release_list& operator=(const release_list&) = delete;
  ~release_list() { drain(); }

  /// Takes ownership of `item`.
  void push(releasable* item) noexcept;
  /// The same for an item whose release may call the driver. Counted once, also if this is called
  /// by the item's own release.
  void push_for_driver(releasable* item) noexcept;

  /// Releases every item pushed so far, and what these push.
  void drain() noexcept;
  /// Releases at most `most` items, and none of `push_for_driver`. Returns how many.
  std::size_t drain_some(std::size_t most) noexcept;
  /// Drains, and waits until every drain that other threads have begun by now has ended and what
  /// these pushed is released, too. Waits for ten seconds at most, and not inside a release.
  void drain_and_wait() noexcept;

  /// Whether `drain_some` would find nothing.
  [[nodiscard]] bool empty() const noexcept {
    return pushed_.empty() && !taken_any_.load(std::memory_order_relaxed);
  }
  /// Whether items of `push_for_driver` wait.
  [[nodiscard]] bool waits_for_driver() const noexcept { return !for_driver_.empty(); }
  /// Whether no other thread is draining at this moment. True inside a release.
  [[nodiscard]] bool rests() const noexcept;
  /// Items that have not been released yet. Observing a decrease synchronizes with the release.
  [[nodiscard]] std::size_t size() const noexcept { return size_.load(std::memory_order_acquire); }

 private:
  /// A lock-free stack of which all items are taken at once.
  class chain {
   public:
    void push(releasable* item) noexcept;
    /// All items, oldest first.
    [[nodiscard]] releasable* take() noexcept;
    [[nodiscard]] bool empty() const noexcept {
      return newest_.load(std::memory_order_acquire) == nullptr;
    }

   private:
    std::atomic<releasable*> newest_{nullptr};
  };

  class drain_scope;

  [[nodiscard]] releasable* take_all() noexcept;
  [[nodiscard]] releasable* take_some(std::size_t most) noexcept;
  std::size_t release_chain(releasable* oldest) noexcept;
  void wait_for_drains() noexcept;

  chain pushed_;
  chain for_driver_;
  std::atomic<std::size_t> size_{0};

  // Taken from `pushed_` by `drain_some` and left over, oldest first.
  spin_lock taken_lock_;
  releasable* taken_ = nullptr;
  std::atomic<bool> taken_any_{false};

  // Drains under way, by the parity of the epoch in which they began. A waiter advances the epoch
  // twice, so that later drains cannot keep it waiting.
  std::atomic<std::uint32_t> epoch_{0};
  std::atomic<std::uint32_t> draining_[2]{};
  std::mutex waiting_;
};

}  // namespace sluice::detail
