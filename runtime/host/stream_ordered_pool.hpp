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

/// Memory that is handed out and taken back in stream order, as a CUDA memory pool does: a block
/// freed on a stream is given out again at once on that stream, and on another one only when the
/// free has been reached.
class stream_ordered_pool {
 public:
  stream_ordered_pool() = default;
  stream_ordered_pool(const stream_ordered_pool&) = delete;
  stream_ordered_pool& operator=(const stream_ordered_pool&) = delete;
  /// All memory is returned to the system; nothing may be in use.
  ~stream_ordered_pool();

  /// @throws error `out_of_memory`
  [[nodiscard]] void* allocate(std::size_t bytes, host_stream& stream);
  void deallocate(void* address, host_stream& stream) noexcept;
  /// Takes memory back that no unfinished work touches, as the calling thread knows.
  void deallocate_finished(void* address) noexcept;
  /// Bytes taken from the system and not returned.
  [[nodiscard]] std::size_t bytes() const noexcept;
  /// Returns what is kept for later, and free by now, to the system.
  std::size_t trim() noexcept;

 private:
  struct block {
    void* address = nullptr;
    std::size_t bytes = 0;
    host_stream* freed_on = nullptr;                  // null: in no stream's order
    std::shared_ptr<std::atomic<bool>> free_reached;  // null: at once
    [[nodiscard]] bool reached() const noexcept {
      return !free_reached || free_reached->load(std::memory_order_acquire);
    }
  };

  [[nodiscard]] void* take(std::size_t bytes, const host_stream& stream);
  [[nodiscard]] std::size_t give_back() noexcept;

  mutable std::mutex mutex_;
  std::unordered_map<void*, std::size_t> used_;
  std::map<std::size_t, std::vector<block>> free_;  // by size class
  std::size_t bytes_ = 0;                           // of both
};

/// Memory of the system, aligned to 256 bytes. @throws error `out_of_memory`, also for more than
/// the machine has
[[nodiscard]] void* allocate_aligned(std::size_t bytes);
void deallocate_aligned(void* address) noexcept;

}  // namespace sluice::host
