// SPDX-License-Identifier: Apache-2.0
#include "runtime/staging/staging_ring.hpp"

#include "runtime/staging/staging_thread.hpp"
#include "runtime/staging/uncached_copy.hpp"
#include "runtime/timelines/timeline.hpp"

#include <algorithm>
#include <cstring>
#include <new>
#include <utility>

namespace sluice::detail {
namespace {

// Of a larger download the caches of a processor would not keep the beginning.
constexpr std::size_t most_cached_bytes = std::size_t{4} << 20U;

bool reached(const std::atomic<std::uint32_t>& word, std::uint32_t value) noexcept {
  return static_cast<std::int32_t>(word.load(std::memory_order_acquire) - value) >= 0;
}

}  // namespace

staging_ring::staging_ring(std::shared_ptr<staging_thread> thread, pinned_memory memory,
                           std::size_t slot_bytes, std::uint32_t slots) noexcept
    : thread_(std::move(thread)),
      memory_(std::move(memory)),
      slot_bytes_(slot_bytes),
      slots_(slots),
      staged_word_(*::new (static_cast<void*>(memory_.get())) word(0)),
      moved_word_(*::new (static_cast<void*>(memory_.get() + word_distance)) word(0)) {}

void staging_ring::enqueue(std::unique_ptr<staging_job> job, timeline& stream, std::byte* address) {
  const std::lock_guard lock(enqueuing_);
  if (broken()) {
    throw error(errc::library_failure,
                "an earlier transfer on the stream could be enqueued only in part");
  }
  const auto bytes = job->bytes;
  const auto direction = job->direction;
  const auto chunks = chunks_of(bytes);
  const auto first = next_;
  job->first = first;
  job->chunks = chunks;
  // Before the first command, which with CUDA_LAUNCH_BLOCKING blocks until it has run.
  if (!thread_->take(job)) throw error(errc::shutting_down, "the runtime has been destroyed");
  next_ += chunks;
  try {
    enqueue_chunks(stream, address, bytes, direction, first, chunks);
  } catch (...) {
    broken_chunk_ = first;
    broken_.store(true, std::memory_order_release);
    throw;
  }
}

void staging_ring::enqueue_chunks(timeline& stream, std::byte* address, std::size_t bytes,
                                  copy_direction direction, std::uint32_t first,
                                  std::uint32_t chunks) {
  auto& device = stream.device();
  const bool upload = direction == copy_direction::host_to_device;
  for (std::uint32_t i = 0; i != chunks; ++i) {
    const auto chunk = first + i;
    auto* const chunk_address = address + i * slot_bytes_;
    const auto size = std::min(slot_bytes_, bytes - i * slot_bytes_);
    on_stream(stream, [&](native_stream* native) {
      device.wait_for_word(native, staged_word_, upload ? chunk + 1 : chunk + 1 - slots_);
      if (upload) {
        device.copy(chunk_address, slot(chunk), size, direction, native);
      } else {
        device.copy(slot(chunk), chunk_address, size, direction, native);
      }
      device.write_word(native, moved_word_, chunk + 1);
    });
  }
  if (upload) return;
  // The launch ends once the last slot has been emptied.
  on_stream(stream, [&](native_stream* native) {
    device.wait_for_word(native, staged_word_, first + chunks);
  });
}

staging_ring::progress staging_ring::advance(staging_job& job) noexcept {
  if (broken() && broken_chunk_ == job.first) {
    abandon(job);
    return progress::finished;
  }
  const auto chunk = job.first + job.chunks_done;
  const auto offset = job.chunks_done * slot_bytes_;
  const auto size = std::min(slot_bytes_, job.bytes - offset);
  if (job.direction == copy_direction::host_to_device) {
    if (job.ready && job.ready->load(std::memory_order_acquire) == 0) return progress::none;
    if (!reached(moved_word_, chunk + 1 - slots_)) return progress::none;
    std::memcpy(slot(chunk), job.memory.get() + offset, size);
  } else {
    if (!reached(moved_word_, chunk + 1)) return progress::none;
    auto* const target = job.memory.get() + offset;
    if (job.bytes > most_cached_bytes) {
      uncached_copy(target, slot(chunk), size);
    } else {
      std::memcpy(target, slot(chunk), size);
    }
  }
  staged_word_.store(chunk + 1, std::memory_order_release);
  return ++job.chunks_done == job.chunks ? progress::finished : progress::chunk;
}

void staging_ring::abandon(const staging_job& job) noexcept {
  staged_word_.store(job.first + job.chunks, std::memory_order_release);
}

}  // namespace sluice::detail
