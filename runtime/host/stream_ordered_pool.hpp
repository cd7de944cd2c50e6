// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "runtime/host/host_stream.hpp"

#include <cstddef>
#include <map>
#include <memory>
#include <mutex>
#include <unordered_map>
#include <vector>

namespace sluice::host {

/// A stream-ordered pool, like a memory pool of CUDA. A block freed on a stream is available to
/// that stream at once, and to other streams once the free has been reached. Thread-safe.
class stream_ordered_pool {
 public:
  stream_ordered_pool() = default;
  stream_ordered_pool(const stream_ordered_pool&) = delete;
  stream_ordered_pool& operator=(const stream_ordered_pool&) = delete;
  /// Returns all memory to the system. No memory may be in use.
  ~stream_ordered_pool();

  /// Allocates `bytes` bytes, ordered on `stream`.
  /// @throws error `out_of_memory`
  [[nodiscard]] void* allocate(std::size_t bytes, host_stream& stream);
  void deallocate(void* address, host_stream& stream) noexcept;
  /// Frees memory that no unfinished work uses. The calling thread must be ordered after all uses.
  void deallocate_finished(void* address) noexcept;
  /// The bytes taken from the system and not returned.
  [[nodiscard]] std::size_t bytes() const noexcept;
  /// Returns kept memory whose free has been reached to the system. Returns its bytes.
  std::size_t trim() noexcept;

 private:
  struct block {
    void* address = nullptr;
    std::size_t bytes = 0;
    host_stream* stream = nullptr;                    // null: not ordered on a stream
    std::shared_ptr<std::atomic<bool>> free_reached;  // null: reached
    [[nodiscard]] bool reached() const noexcept {
      return !free_reached || free_reached->load(std::memory_order_acquire);
    }
  };

  [[nodiscard]] void* take(std::size_t bytes, const host_stream& stream);
  [[nodiscard]] std::size_t give_back() noexcept;

  mutable std::mutex mutex_;
  std::unordered_map<void*, std::size_t> blocks_in_use_;
  std::map<std::size_t, std::vector<block>> free_;  // by size class
  std::size_t bytes_ = 0;                           // of used and free blocks
};

/// Memory of the system, aligned to 256 bytes.
/// @throws error `out_of_memory` if the system has none, or for more than the physical memory
[[nodiscard]] void* allocate_aligned(std::size_t bytes);
void deallocate_aligned(void* address) noexcept;

}  // namespace sluice::host
