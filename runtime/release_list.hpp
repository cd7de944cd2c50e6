#pragma once

#include <sluice/runtime/releasable.hpp>

#include <atomic>
#include <cstddef>
#include <shared_mutex>

namespace sluice::detail {

/// Completed launches whose owners are still to be dropped. Pushing is one atomic exchange of a
/// pointer; whoever drains destroys what was pushed, oldest first, in its own thread. What is
/// destroyed may push and drain itself. Thread-safe.
class release_list {
 public:
  release_list() = default;
  release_list(const release_list&) = delete;
  release_list& operator=(const release_list&) = delete;
  ~release_list() { drain(); }

  /// Takes `item` over.
  void push(releasable* item) noexcept;
  void drain() noexcept;
  /// Drains, and waits for what other threads are draining: afterwards everything that was pushed
  /// before is gone, unless this thread is destroying something.
  void drain_and_wait() noexcept;
  [[nodiscard]] bool empty() const noexcept {
    return newest_.load(std::memory_order_acquire) == nullptr;
  }
  /// Whether no other thread is draining at this moment. True for a thread that is draining
  /// something itself.
  [[nodiscard]] bool rests() noexcept;
  /// How many have not been destroyed yet; who sees fewer comes after that.
  [[nodiscard]] std::size_t size() const noexcept { return size_.load(std::memory_order_acquire); }

 private:
  std::atomic<releasable*> newest_{nullptr};
  std::atomic<std::size_t> size_{0};
  std::shared_mutex draining_;  // shared by those who drain
};

}  // namespace sluice::detail
