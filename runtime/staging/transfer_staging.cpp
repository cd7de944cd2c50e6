// SPDX-License-Identifier: Apache-2.0
#include "runtime/staging/transfer_staging.hpp"

#include "runtime/base/size_class.hpp"
#include "runtime/staging/staging_thread.hpp"
#include "runtime/timelines/runtime_context.hpp"

#include <algorithm>
#include <thread>
#include <utility>

namespace sluice::detail {
namespace {

// A thread fills a slot of this size in about 70 microseconds.
constexpr std::size_t usual_slot_bytes = std::size_t{1} << 20U;
constexpr std::uint32_t usual_slots = 4;

constexpr std::size_t least_limit = std::size_t{256} << 20U;

/// The default limit: twice what a transfer of all device memory needs with a ring of one slot.
std::size_t usual_limit(runtime_context& context) {
  return std::max(least_limit, context.device().info().memory_bytes / 32);
}

}  // namespace

transfer_staging::transfer_staging(runtime_context& context, limits bounds)
    : context_(context),
      pool_(pinned_pool::make(context,
                              bounds.transfers != 0 ? bounds.transfers : usual_limit(context),
                              "pinned_limit")),
      clients_(pinned_pool::make(context,
                                 bounds.clients != 0 ? bounds.clients : usual_limit(context),
                                 "client_pinned_limit")) {}

std::shared_ptr<staging_ring> transfer_staging::ring_for(timeline& stream, std::size_t bytes) {
  if (!context_.device().supports_words()) {
    throw error(errc::unsupported,
                "a transfer of " + std::to_string(bytes) +
                    " bytes needs stream memory operations, which the driver of " +
                    to_string(context_.device().id()) + " does not support");
  }
  context_.require_open();
  // Allocated outside the lock, so that other streams do not wait for it.
  std::shared_ptr<staging_ring> ring;
  const std::shared_ptr<staging_thread> thread = [&] {
    const std::lock_guard lock(mutex_);
    ring = known_ring(stream, bytes);
    if (!thread_ && !closed_) {
      context_.start_reclaiming();
      thread_ = staging_thread::start(context_);
    }
    return thread_;
  }();
  if (ring) return ring;
  if (!thread) throw error(errc::shutting_down, "the runtime has been destroyed");
  ring = make_ring(thread, bytes);
  const std::lock_guard lock(mutex_);
  if (auto existing = known_ring(stream, bytes)) return existing;
  std::erase_if(rings_, [](const auto& entry) { return entry.second.expired(); });
  rings_[&stream] = ring;
  return ring;
}

std::shared_ptr<staging_ring> transfer_staging::known_ring(timeline& stream, std::size_t bytes) {
  const auto position = rings_.find(&stream);
  auto ring = position == rings_.end() ? nullptr : position->second.lock();
  return ring && ring->serves(bytes) ? ring : nullptr;
}

std::shared_ptr<staging_ring> transfer_staging::make_ring(
    const std::shared_ptr<staging_thread>& thread, std::size_t bytes) {
  const auto least_slot =
      size_class((bytes + staging_ring::max_chunks - 1) / staging_ring::max_chunks);
  auto slot_bytes = std::max(usual_slot_bytes, least_slot);
  auto slots = usual_slots;
  for (;;) {
    const auto bytes_needed = staging_ring::footprint(slot_bytes, slots);
    if (auto memory = pool_->try_acquire(bytes_needed)) {
      return std::make_shared<staging_ring>(thread, std::move(memory), slot_bytes, slots);
    }
    // Fewer or smaller slots are slower and need less memory.
    if (slots != 1) {
      slots /= 2;
    } else if (slot_bytes != least_slot) {
      slot_bytes = least_slot;
    } else {
      pool_->refuse(bytes_needed);
    }
  }
}

void transfer_staging::close(std::chrono::steady_clock::time_point end) noexcept {
  std::shared_ptr<staging_thread> thread;
  {
    const std::lock_guard lock(mutex_);
    closed_ = true;
    thread = std::move(thread_);
  }
  if (thread) {
    while (thread->jobs() != 0 && !context_.device().lost() &&
           std::chrono::steady_clock::now() < end) {
      std::this_thread::sleep_for(std::chrono::microseconds(50));
    }
    thread->stop();
  }
  pool_->close();
  clients_.pool().close();
}

}  // namespace sluice::detail
