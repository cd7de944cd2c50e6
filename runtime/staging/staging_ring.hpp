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

/// The work of the staging thread for one transfer: copying chunks between memory of the process
/// and the slots of a ring. The staging thread puts it on the runtime's release list with the last
/// chunk: the owner of the memory may be anything, so it is destroyed on another thread.
struct staging_job final : releasable {
  std::shared_ptr<staging_ring> ring;
  std::shared_ptr<std::byte> memory;  // of the process
  std::size_t bytes = 0;
  copy_direction direction = copy_direction::host_to_device;
  /// An upload reads nothing before this word is set; null where it may read at once.
  std::shared_ptr<const std::atomic<std::uint32_t>> ready;

  // Set by the ring.
  std::uint32_t first = 0;   // number of the first chunk
  std::uint32_t chunks = 0;  // how many
  // The staging thread's own.
  std::uint32_t done = 0;
  staging_job* next = nullptr;  // in the inbox, or of the jobs that are first on their rings
  staging_job* next_on_ring = nullptr;
};

/// Slots of pinned memory through which the transfers of one stream pass, chunk by chunk, and two
/// words that the stream and the staging thread wait for.
///
/// Chunks are numbered in the order in which the stream copies them; chunk n uses slot n modulo the
/// number of slots. `staged` counts the chunks that the staging thread has finished, `moved` those
/// that the stream has copied:
///
///     upload, chunk n:    thread waits for moved >= n + 1 - slots, fills the slot, staged = n + 1
///                         stream waits for staged >= n + 1, copies the slot, moved = n + 1
///     download, chunk n:  stream waits for staged >= n + 1 - slots, copies to the slot, moved = n
///     + 1
///                         thread waits for moved >= n + 1, empties the slot, staged = n + 1
///
/// So a stream waits only for the staging thread and for work that was enqueued on itself before
/// that wait: streams that share a hardware queue cannot block each other for ever. Comparisons are
/// cyclic, as those of `cuStreamWaitValue32` are.
class staging_ring : public std::enable_shared_from_this<staging_ring> {
 public:
  /// A transfer has at most this many chunks, so that its commands fit into the driver's queue.
  static constexpr std::uint32_t most_chunks = 64;
  /// Bytes of pinned memory for a ring.
  [[nodiscard]] static constexpr std::size_t footprint(std::size_t slot_bytes,
                                                       std::uint32_t slots) noexcept {
    return words_bytes + slot_bytes * slots;
  }

  /// `slots` is a power of two.
  staging_ring(std::shared_ptr<staging_thread> thread, pinned_memory memory, std::size_t slot_bytes,
               std::uint32_t slots) noexcept;
  staging_ring(const staging_ring&) = delete;
  staging_ring& operator=(const staging_ring&) = delete;

  /// Whether a transfer of `bytes` bytes may still be enqueued here.
  [[nodiscard]] bool serves(std::size_t bytes) const noexcept {
    return !broken() && bytes <= slot_bytes_ * most_chunks;
  }
  /// What `enqueue` puts on the stream: three commands a chunk, and the last wait of a download.
  [[nodiscard]] std::size_t commands_of(std::size_t bytes) const noexcept {
    return std::size_t{3} * chunks_of(bytes) + 1;
  }
  [[nodiscard]] std::uint32_t chunks_of(std::size_t bytes) const noexcept {
    return static_cast<std::uint32_t>((bytes + slot_bytes_ - 1) / slot_bytes_);
  }

  /// Hands `job` to the staging thread, then enqueues the commands of its transfer from or to
  /// `address` on `stream`, always the same one. Does not wait for the device.
  /// @throws error `shutting_down` (the runtime has ended; nothing is enqueued); as the device,
  /// `stream_misuse` (the stream has been retired). The commands that
  /// were enqueued before complete nevertheless, and the ring takes no further transfer
  void enqueue(std::unique_ptr<staging_job> job, timeline& stream, std::byte* address);

  /// For the staging thread: the next chunk of `job`, the oldest of its ring.
  enum class progress : std::uint8_t { none, chunk, finished };
  [[nodiscard]] progress advance(staging_job& job) noexcept;
  /// For the staging thread: lets the stream pass everything that waits for `job`.
  void abandon(const staging_job& job) noexcept;

 private:
  friend class staging_thread;
  using word = std::atomic<std::uint32_t>;
  static_assert(word::is_always_lock_free && sizeof(word) == 4);
  static constexpr std::size_t word_distance = 128;  // a cache line and the one fetched with it
  static constexpr std::size_t words_bytes = 4096;   // so that slots begin at a page

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
  word& staged_;
  word& moved_;

  std::mutex enqueuing_;  // the numbers and the commands of transfers have one order
  std::uint32_t next_ = 0;
  std::uint32_t broken_at_ = 0;  // the first chunk of the transfer that was not enqueued wholly
  std::atomic<bool> broken_{false};

  staging_job* newest_ = nullptr;  // the staging thread's own
};

}  // namespace sluice::detail
