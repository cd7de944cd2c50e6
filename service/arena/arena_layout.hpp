// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "service/arena/message_ring.hpp"

#include <cstddef>
#include <cstdint>
#include <span>

namespace sluice::service {

/// A part of the shared memory, in bytes from its beginning.
struct arena_part {
  std::uint64_t begin = 0;
  std::uint64_t bytes = 0;
};

/// How large the parts of an arena are.
struct arena_sizes {
  std::uint64_t request_bytes = 0;     ///< for inputs; rounded up to pages
  std::uint64_t reply_bytes = 0;       ///< for outputs; rounded up to pages
  std::uint64_t ring_capacity = 1024;  ///< requests in flight, and replies in memory; a power of 2
};

/// Where things lie in the memory that the front shares with one worker.
///
/// A page of header (sizes, indices of the rings, flags), three rings, the part in which the front
/// allocates regions for requests, and the part in which the worker allocates regions for replies.
/// The front creates the layout and never reads it back from the memory.
class arena_layout {
 public:
  /// The entry of the request ring that cancels a request has this bit and the number of the
  /// request. All other entries are offsets of regions.
  static constexpr std::uint64_t cancellation = std::uint64_t{1} << 63;

  /// @throws std::invalid_argument if the sizes are zero, no power of two, or too large
  explicit arena_layout(const arena_sizes& sizes);
  /// Reads the layout that the front has written into the memory.
  /// @throws std::invalid_argument if it is none, or is of another version
  explicit arena_layout(std::span<const std::byte> memory);

  /// Writes the layout into new memory.
  void write(std::span<std::byte> memory) const;

  [[nodiscard]] std::uint64_t bytes() const noexcept;  ///< of the whole memory
  [[nodiscard]] std::uint64_t ring_capacity() const noexcept { return capacity_; }
  [[nodiscard]] arena_part requests() const noexcept { return requests_; }
  [[nodiscard]] arena_part replies() const noexcept { return replies_; }

  [[nodiscard]] ring_memory request_ring(std::span<std::byte> memory) const noexcept;
  [[nodiscard]] ring_memory reply_ring(std::span<std::byte> memory) const noexcept;
  [[nodiscard]] ring_memory release_ring(std::span<std::byte> memory) const noexcept;

  /// Flags of `wake_signal`: the front sleeps until a reply, the worker until a request, the worker
  /// waits for memory of replies.
  [[nodiscard]] static std::uint64_t* front_sleeps(std::span<std::byte> memory) noexcept;
  [[nodiscard]] static std::uint64_t* worker_sleeps(std::span<std::byte> memory) noexcept;
  [[nodiscard]] static std::uint64_t* release_wanted(std::span<std::byte> memory) noexcept;

 private:
  [[nodiscard]] ring_memory ring(std::span<std::byte> memory, std::size_t number) const noexcept;

  std::uint64_t capacity_ = 0;
  arena_part requests_{};
  arena_part replies_{};
};

}  // namespace sluice::service
