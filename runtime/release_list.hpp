#pragma once

#include <sluice/runtime/releasable.hpp>

#include <atomic>
#include <cstddef>

namespace sluice::detail {

/// Completed launches whose owners are still to be dropped. Pushing is one atomic exchange of a
/// pointer; whoever drains destroys what was pushed, oldest first, in its own thread. Thread-safe.
class release_list {
 public:
  release_list() = default;
  release_list(const release_list&) = delete;
  release_list& operator=(const release_list&) = delete;
  ~release_list() { drain(); }

  /// Takes `item` over.
  void push(releasable* item) noexcept;
  void drain() noexcept;
  [[nodiscard]] bool empty() const noexcept {
    return newest_.load(std::memory_order_acquire) == nullptr;
  }
  [[nodiscard]] std::size_t size() const noexcept { return size_.load(std::memory_order_relaxed); }

 private:
  std::atomic<releasable*> newest_{nullptr};
  std::atomic<std::size_t> size_{0};
};

}  // namespace sluice::detail
