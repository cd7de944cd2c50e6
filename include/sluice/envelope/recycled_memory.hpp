// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <cstddef>
#include <memory>
#include <new>
#include <utility>

namespace sluice::detail {

/// Blocks of host memory of one size, which one thread takes and any thread returns.
///
/// The thread that owns a lane allocates a launch, and another thread destroys it. In a general
/// allocator, these two threads would wait for each other. As many blocks are kept as were in use
/// at once. Under AddressSanitizer none are kept, so that it finds a use after the end.
class recycled_memory {
 public:
  recycled_memory() = default;
  recycled_memory(const recycled_memory&) = delete;
  recycled_memory& operator=(const recycled_memory&) = delete;
  /// All blocks have been returned.
  ~recycled_memory() {
    free_all(ready_);
    free_all(returned_.load(std::memory_order_acquire));
  }

  /// A block of `bytes`, the same number at each call and at least the size of a pointer. Only one
  /// thread calls it.
  /// @throws std::bad_alloc if there is no memory
  [[nodiscard]] void* take(std::size_t bytes) {
    if (ready_ == nullptr) ready_ = returned_.exchange(nullptr, std::memory_order_acquire);
    if (ready_ == nullptr) return ::operator new(bytes);
    return std::exchange(ready_, ready_->next);
  }
  /// Returns a block of `take`. Any thread may call it.
  void give_back(void* memory) noexcept {
    if constexpr (!keeps_blocks) return ::operator delete(memory);
    auto* const one = new (memory) block{returned_.load(std::memory_order_relaxed)};
    // `take` removes all blocks at once, so a head that comes back is no problem here.
    while (!returned_.compare_exchange_weak(one->next, one, std::memory_order_release,
                                            std::memory_order_relaxed)) {
    }
  }

  /// Whether returned blocks are kept.
#if defined(__SANITIZE_ADDRESS__)
  static constexpr bool keeps_blocks = false;
#else
  static constexpr bool keeps_blocks = true;
#endif

 private:
  struct block {
    block* next;
  };
  static void free_all(block* all) noexcept {
    while (all != nullptr) ::operator delete(std::exchange(all, all->next));
  }

  block* ready_ = nullptr;  // of the thread that takes
  alignas(64) std::atomic<block*> returned_{nullptr};
};

/// Allocates single objects of up to `block_bytes` in recycled memory, and larger ones on the heap.
/// Only one thread allocates.
template <class T>
class recycling_allocator {
 public:
  using value_type = T;
  static constexpr std::size_t block_bytes = 512;

  explicit recycling_allocator(std::shared_ptr<recycled_memory> blocks) noexcept
      : blocks_(std::move(blocks)) {}
  template <class U>
  // NOLINTNEXTLINE(google-explicit-constructor): allocators convert.
  recycling_allocator(const recycling_allocator<U>& other) noexcept : blocks_(other.blocks_) {}

  [[nodiscard]] T* allocate(std::size_t count) {
    const auto bytes = count * sizeof(T);
    return static_cast<T*>(bytes <= block_bytes ? blocks_->take(block_bytes)
                                                : ::operator new(bytes));
  }
  void deallocate(T* memory, std::size_t count) noexcept {
    if (count * sizeof(T) > block_bytes) return ::operator delete(memory);
    blocks_->give_back(memory);
  }
  [[nodiscard]] bool operator==(const recycling_allocator&) const noexcept = default;

 private:
  template <class U>
  friend class recycling_allocator;
  std::shared_ptr<recycled_memory> blocks_;
};

}  // namespace sluice::detail
