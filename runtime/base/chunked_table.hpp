// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <memory>

namespace sluice::detail {

/// A table of atomics that grows by chunks. Chunks never move, so reads need no lock. An element
/// that was never written reads as `T{}`. Thread-safe.
template <class T, std::size_t ChunkSize = 256, std::size_t Chunks = 1024>
class chunked_table {
 public:
  static constexpr std::size_t capacity = ChunkSize * Chunks;

  chunked_table() noexcept = default;
  chunked_table(const chunked_table&) = delete;
  chunked_table& operator=(const chunked_table&) = delete;
  ~chunked_table() {
    for (auto& c : chunks_) delete c.load(std::memory_order_relaxed);
  }

  /// The value of an element, loaded with acquire order.
  [[nodiscard]] T load(std::size_t index) const noexcept {
    if (index >= capacity) return T{};
    const auto* c = chunks_[index / ChunkSize].load(std::memory_order_acquire);
    return c == nullptr ? T{} : (*c)[index % ChunkSize].load(std::memory_order_acquire);
  }
  /// The element itself, or nullptr beyond the capacity.
  /// @throws std::bad_alloc
  [[nodiscard]] std::atomic<T>* at(std::size_t index) {
    if (index >= capacity) return nullptr;
    auto& slot = chunks_[index / ChunkSize];
    auto* c = slot.load(std::memory_order_acquire);
    if (c == nullptr) {
      auto new_chunk = std::make_unique<chunk>();
      if (slot.compare_exchange_strong(c, new_chunk.get(), std::memory_order_acq_rel))
        c = new_chunk.release();
    }
    return &(*c)[index % ChunkSize];
  }

 private:
  using chunk = std::array<std::atomic<T>, ChunkSize>;
  std::array<std::atomic<chunk*>, Chunks> chunks_{};
};

}  // namespace sluice::detail
