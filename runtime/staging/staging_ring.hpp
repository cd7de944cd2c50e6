// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "runtime/staging/pinned_pool.hpp"

#include <sluice/runtime/device.hpp>
#include <sluice/runtime/releasable.hpp>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>

namespace sluice::detail {

class staging_ring;
class staging_thread;
class timeline;

/// The work of the staging thread for one transfer: it copies chunks between host memory and the
/// slots of a ring. After the last chunk the staging thread pushes the job on the runtime's release
/// list, because the owner of the host memory must be destroyed on another thread.
struct staging_job final : releasable {
  std::shared_ptr<staging_ring> ring;
  std::shared_ptr<std::byte> memory;  // host memory
  std::size_t bytes = 0;
  copy_direction direction = copy_direction::host_to_device;
  /// An upload reads nothing before this word is set. Null: it may read at once.
  std::shared_ptr<const std::atomic<std::uint32_t>> ready;

  // Set by the ring.
  std::uint32_t first = 0;   // the number of the first chunk
  std::uint32_t chunks = 0;  // their number
  // Used only by the staging thread.
  std::uint32_t chunks_done = 0;
  staging_job* next = nullptr;  // in the inbox, or in the list of each ring's oldest job
  staging_job* next_on_ring = nullptr;
};

/// The staging ring of one stream: slots of pinned memory, and two words that the stream and the
/// staging thread wait for.
///
/// The transfers of the stream pass through the slots in chunks. Chunks are numbered in the order
/// in which the stream copies them. Chunk n uses slot n modulo the number of slots. `staged` counts
/// the chunks that the staging thread has finished, `moved` the chunks that the stream has copied.
///
///     upload, chunk n    thread:  wait for moved >= n + 1 - slots, fill the slot, staged = n + 1
///                        stream:  wait for staged >= n + 1, copy the slot, moved = n + 1
///     download, chunk n  stream:  wait for staged >= n + 1 - slots, fill the slot, moved = n + 1
///                        thread:  wait for moved >= n + 1, empty the slot, staged = n + 1
///
/// A stream therefore waits only for the staging thread and for its own earlier commands, so
/// streams that share a hardware queue cannot deadlock. Comparisons are cyclic, like those of
/// `cuStreamWaitValue32`. See docs/concepts/memory.md.
class staging_ring : public std::enable_shared_from_this<staging_ring> {
 public:
  /// The limit of chunks for one transfer, so that its commands fit into the driver's queue.
  static constexpr std::uint32_t max_chunks = 64;
  /// The size of a ring in bytes of pinned memory.
  [[nodiscard]] static constexpr std::size_t footprint(std::size_t slot_bytes,
                                                       std::uint32_t slots) noexcept {
    return words_bytes + slot_bytes * slots;
  }

  /// `slots` must be a power of two.
  staging_ring(std::shared_ptr<staging_thread> thread, pinned_memory memory, std::size_t slot_bytes,
               std::uint32_t slots) noexcept;
  staging_ring(const staging_ring&) = delete;
  staging_ring& operator=(const staging_ring&) = delete;

  /// Whether a transfer of `bytes` bytes can be enqueued.
  [[nodiscard]] bool serves(std::size_t bytes) const noexcept {
    return !broken() && bytes <= slot_bytes_ * max_chunks;
  }
  /// The most commands of `enqueue`: three for each chunk, and the last wait of a download.
  [[nodiscard]] std::size_t commands_of(std::size_t bytes) const noexcept {
    return std::size_t{3} * chunks_of(bytes) + 1;
  }
  [[nodiscard]] std::uint32_t chunks_of(std::size_t bytes) const noexcept {
    return static_cast<std::uint32_t>((bytes + slot_bytes_ - 1) / slot_bytes_);
  }

  /// Hands `job` to the staging thread, then enqueues the commands of its transfer from or to
  /// `address` on `stream`. All calls must pass the same stream. Does not wait for the device.
  ///
  /// If an error occurs after the first command, the earlier commands complete nevertheless, and
  /// the ring accepts no further transfer.
  /// @throws error `shutting_down` if the runtime has ended; nothing has been enqueued
  /// @throws error `stream_misuse` if the stream has been destroyed
  /// @throws error of the device, if it refuses a command
  void enqueue(std::unique_ptr<staging_job> job, timeline& stream, std::byte* address);

  /// Processes the next chunk of `job`, the oldest of its ring. For the staging thread.
  enum class progress : std::uint8_t { none, chunk, finished };
  [[nodiscard]] progress advance(staging_job& job) noexcept;
  /// Releases all waits of the stream for `job`. For the staging thread.
  void abandon(const staging_job& job) noexcept;

 private:
  friend class staging_thread;
  using word = std::atomic<std::uint32_t>;
  static_assert(word::is_always_lock_free && sizeof(word) == 4);
  static constexpr std::size_t word_distance = 128;  // a cache line and the line prefetched with it
  static constexpr std::size_t words_bytes = 4096;   // slots begin at a page

  [[nodiscard]] bool broken() const noexcept { return broken_.load(std::memory_order_acquire); }
  [[nodiscard]] std::byte* slot(std::uint32_t chunk) const noexcept {
    return memory_.get() + words_bytes + (chunk % slots_) * slot_bytes_;
  }
  void enqueue_chunks(timeline& stream, std::byte* address, std::size_t bytes,
                      copy_direction direction, std::uint32_t first, std::uint32_t chunks);

  const std::shared_ptr<staging_thread> thread_;
  const pinned_memory memory_;
  const std::size_t slot_bytes_;
  const std::uint32_t slots_;
  word& staged_word_;
  word& moved_word_;

  std::mutex enqueuing_;  // gives chunk numbers and commands of transfers one order
  std::uint32_t next_ = 0;
  // The first chunk of the transfer that was enqueued only in part.
  std::uint32_t broken_chunk_ = 0;
  std::atomic<bool> broken_{false};

  staging_job* newest_ = nullptr;  // used only by the staging thread
};

}  // namespace sluice::detail
