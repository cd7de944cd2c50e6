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
/// at once. Under AddressSanitizer none are kept, so that a use after the end is found.
///
/// It lives until it has been closed and all blocks have been returned. A reference count would do
/// the same, but all threads would write it for each block.
class recycled_memory {
 public:
  recycled_memory() = default;
  recycled_memory(const recycled_memory&) = delete;
  recycled_memory& operator=(const recycled_memory&) = delete;

  /// A block of `bytes`, the same number at each call and at least the size of a pointer. Only one
  /// thread calls it.
  /// @throws std::bad_alloc if there is no memory
  [[nodiscard]] void* take(std::size_t bytes) {
    if (ready_ == nullptr) ready_ = returned_.exchange(nullptr, std::memory_order_acquire);
    if (ready_ != nullptr) return std::exchange(ready_, ready_->next);
    auto* const memory = ::operator new(bytes);
    ++block_count_;
    return memory;
  }
  /// Returns a block of `take`. Any thread may call it. The last block of a closed memory destroys
  /// it.
  void give_back(void* memory) noexcept {
    if constexpr (keeps_blocks) {
      auto* newest = returned_.load(std::memory_order_relaxed);
      while (newest != &closed_) {
        auto* const node = new (memory) block{newest};
        // `take` removes all blocks at once, so a head that comes back is no problem here.
        if (returned_.compare_exchange_weak(newest, node, std::memory_order_release,
                                            std::memory_order_relaxed)) {
          return;
        }
      }
    }
    ::operator delete(memory);
    count_missing(-1);
  }
  /// Ends the memory once all blocks have been returned. Only the thread that takes calls it, last.
  void close() noexcept {
    auto outstanding = block_count_ - free_all(ready_);
    if constexpr (keeps_blocks) {
      outstanding -= free_all(returned_.exchange(&closed_, std::memory_order_acq_rel));
    }
    count_missing(outstanding);
  }

  /// Whether returned blocks are kept.
#if defined(__SANITIZE_ADDRESS__)
  static constexpr bool keeps_blocks = false;
#elif defined(__has_feature)
  static constexpr bool keeps_blocks = !__has_feature(address_sanitizer);
#else
  static constexpr bool keeps_blocks = true;
#endif

 protected:
  virtual ~recycled_memory() = default;

 private:
  struct block {
    block* next;
  };
  /// Returns the number of blocks.
  static std::ptrdiff_t free_all(block* head) noexcept {
    std::ptrdiff_t count = 0;
    for (; head != nullptr; ++count) ::operator delete(std::exchange(head, head->next));
    return count;
  }
  /// Blocks that were returned too late to be kept count before `close` counts them.
  void count_missing(std::ptrdiff_t more) noexcept {
    if (outstanding_.fetch_add(more, std::memory_order_acq_rel) + more == 0) delete this;
  }

  block* ready_ = nullptr;          // of the thread that takes
  std::ptrdiff_t block_count_ = 0;  // likewise
  alignas(64) std::atomic<block*> returned_{nullptr};
  std::atomic<std::ptrdiff_t> outstanding_{0};
  block closed_{nullptr};  // its address is in `returned_` once the memory has been closed
};

/// Closes recycled memory that its owner does not need any more.
struct recycled_memory_closer {
  void operator()(recycled_memory* memory) const noexcept { memory->close(); }
};
/// The owner of recycled memory, which takes blocks of it.
template <class Memory = recycled_memory>
using recycled_memory_owner = std::unique_ptr<Memory, recycled_memory_closer>;

/// Allocates single objects of up to `block_bytes` in recycled memory, and larger ones on the heap.
/// Only one thread allocates.
template <class T>
class recycling_allocator {
 public:
  using value_type = T;
  static constexpr std::size_t block_bytes = 512;

  explicit recycling_allocator(recycled_memory& blocks) noexcept : blocks_(&blocks) {}
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
  recycled_memory* blocks_;
};

}  // namespace sluice::detail
