// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sluice/envelope/recycled_memory.hpp>

#include <array>
#include <cstddef>
#include <memory>
#include <new>
#include <type_traits>
#include <utility>

namespace sluice::detail {

/// Small blocks of host memory that one thread takes and returns again and again.
///
/// A bounded number of blocks of each size is kept. Under AddressSanitizer none are, so that it
/// finds a use after the end. Not thread-safe.
class owner_memory {
 public:
  owner_memory() = default;
  owner_memory(const owner_memory&) = delete;
  owner_memory& operator=(const owner_memory&) = delete;
  ~owner_memory() {
    for (auto& blocks : blocks_) {
      while (blocks.first != nullptr) {
        ::operator delete(std::exchange(blocks.first, blocks.first->next));
      }
    }
  }

  /// A block of `bytes`, aligned for any fundamental type.
  /// @throws std::bad_alloc if there is no memory
  [[nodiscard]] void* take(std::size_t bytes) {
    const auto size_class = (bytes - 1) / granularity;
    if (size_class >= blocks_.size()) return ::operator new(bytes);
    auto& blocks = blocks_[size_class];
    if (blocks.first == nullptr) return ::operator new((size_class + 1) * granularity);
    --blocks.count;
    return std::exchange(blocks.first, blocks.first->next);
  }
  /// Returns a block of `take(bytes)`.
  void give_back(void* memory, std::size_t bytes) noexcept {
    const auto size_class = (bytes - 1) / granularity;
    if (!recycled_memory::keeps_blocks || size_class >= blocks_.size() ||
        blocks_[size_class].count >= max_blocks) {
      return ::operator delete(memory);
    }
    auto& blocks = blocks_[size_class];
    blocks.first = new (memory) block{blocks.first};
    ++blocks.count;
  }

 private:
  struct block {
    block* next;
  };
  struct block_list {
    block* first = nullptr;
    std::size_t count = 0;
  };

  static constexpr std::size_t granularity = 64;
  static constexpr std::size_t max_blocks = 1024;  // of each size
  std::array<block_list, 64> blocks_;
};

/// Allocates in the memory of an owner, size_class must outlive it.
template <class T>
class owner_allocator {
 public:
  using value_type = T;

  // NOLINTNEXTLINE(google-explicit-constructor): the memory is the whole allocator.
  owner_allocator(owner_memory& memory) noexcept : memory_(&memory) {}
  template <class U>
  // NOLINTNEXTLINE(google-explicit-constructor): allocators convert.
  owner_allocator(const owner_allocator<U>& other) noexcept : memory_(other.memory_) {}

  [[nodiscard]] T* allocate(std::size_t count) {
    return static_cast<T*>(memory_->take(count * sizeof(T)));
  }
  void deallocate(T* memory, std::size_t count) noexcept {
    memory_->give_back(memory, count * sizeof(T));
  }
  [[nodiscard]] bool operator==(const owner_allocator&) const noexcept = default;

 private:
  template <class U>
  friend class owner_allocator;
  owner_memory* memory_;
};

/// Destroys an object in the memory of an owner. `T` may be a base class.
template <class T>
struct owner_deleter {
  owner_memory* memory = nullptr;
  std::size_t bytes = 0;  ///< of the whole object
  void operator()(T* object) const noexcept {
    object->~T();
    memory->give_back(static_cast<void*>(object), bytes);
  }
};
/// Owns an object in the memory of an owner.
template <class T>
using owner_pointer = std::unique_ptr<T, owner_deleter<T>>;

/// A new `T(arguments...)` in `memory`, size_class `Base`, its first base class, stands for.
/// @throws std::bad_alloc if there is no memory
template <class T, class Base, class... Arguments>
[[nodiscard]] owner_pointer<Base> make_owned(owner_memory& memory, Arguments&&... arguments) {
  static_assert(alignof(T) <= alignof(std::max_align_t));
  static_assert(std::is_nothrow_constructible_v<T, Arguments...>);
  Base* const object = new (memory.take(sizeof(T))) T(std::forward<Arguments>(arguments)...);
  return owner_pointer<Base>(object, {&memory, sizeof(T)});
}

}  // namespace sluice::detail
