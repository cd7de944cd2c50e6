// SPDX-License-Identifier: Apache-2.0
#include "runtime/staging/pinned_pool.hpp"

#include "runtime/reports/report.hpp"
#include "runtime/timelines/runtime_context.hpp"

#include <string>

namespace sluice::detail {

pinned_memory::~pinned_memory() {
  if (pool_) pool_->give_back(address_, bytes_);
}

pinned_pool::pinned_pool(runtime_context& context, std::size_t limit, const char* option)
    : device_(context.shared_device()), limit_(limit), option_(option), context_(&context) {}

std::shared_ptr<pinned_pool> pinned_pool::make(runtime_context& context, std::size_t limit,
                                               const char* option) {
  return std::shared_ptr<pinned_pool>(new pinned_pool(context, limit, option));
}

pinned_pool::~pinned_pool() {
  close();
}

pinned_memory pinned_pool::try_acquire(std::size_t bytes) {
  // A kept piece of four times the size or more is left to larger requests.
  constexpr std::size_t largest_excess = 4;
  pinned_memory piece;
  {
    const std::lock_guard lock(mutex_);
    const auto position = free_pieces_.lower_bound(bytes);
    const bool fits = bytes <= limit_ && held_bytes_ <= limit_ - bytes;
    if (position != free_pieces_.end() && (!fits || position->first / largest_excess < bytes)) {
      piece = pinned_memory(shared_from_this(), position->second, position->first);
      free_bytes_ -= position->first;
      free_pieces_.erase(position);
      return piece;
    }
    if (!fits) {
      // If freeing cannot make the request fit, nothing is freed.
      if (bytes <= limit_ && held_bytes_ - free_bytes_ - awaited_bytes_ <= limit_ - bytes)
        reclaim_kept();
      return {};
    }
    held_bytes_ += bytes;
  }
  try {
    auto* const address = static_cast<std::byte*>(device_->allocate_staging(bytes));
    return {shared_from_this(), address, bytes};
  } catch (...) {
    const std::lock_guard lock(mutex_);
    held_bytes_ -= bytes;
    throw;
  }
}

void pinned_pool::refuse(std::size_t bytes) const {
  const std::lock_guard lock(mutex_);
  throw error(errc::over_budget, "pinned memory: " + std::to_string(bytes) +
                                     " bytes would exceed the limit of " + std::to_string(limit_) +
                                     " bytes (runtime_options::" + option_ +
                                     "): " + std::to_string(held_bytes_) + " are held, of which " +
                                     std::to_string(awaited_bytes_) + " await release");
}

void pinned_pool::give_back(std::byte* address, std::size_t bytes) noexcept {
  if (device_->inherited()) return;
  {
    const std::lock_guard lock(mutex_);
    if (context_ != nullptr) {
      try {
        if (free_bytes_ + bytes <= max_kept || !reclaim(address, bytes)) {
          free_pieces_.emplace(bytes, address);
          free_bytes_ += bytes;
        }
        return;
      } catch (...) {
        if (reclaim(address, bytes)) return;
        report("pinned memory could not be freed: out of host memory");
        return;
      }
    }
  }
  free_now(address, bytes);
}

bool pinned_pool::reclaim(std::byte* address, std::size_t bytes) noexcept {
  try {
    context_->reclaim_after(
        {}, {.address = address, .bytes = bytes},
        [](void* pool, allocation memory) noexcept {
          static_cast<pinned_pool*>(pool)->free_now(memory.address, memory.bytes, memory.bytes);
        },
        this);
  } catch (...) {
    return false;
  }
  awaited_bytes_ += bytes;
  return true;
}

void pinned_pool::reclaim_kept() noexcept {
  for (auto piece = free_pieces_.begin(); piece != free_pieces_.end();) {
    if (!reclaim(piece->second, piece->first)) return;
    free_bytes_ -= piece->first;
    piece = free_pieces_.erase(piece);
  }
}

void pinned_pool::free_now(void* address, std::size_t bytes, std::size_t awaited_bytes) noexcept {
  device_->deallocate_staging(address);
  const std::lock_guard lock(mutex_);
  held_bytes_ -= bytes;
  awaited_bytes_ -= awaited_bytes;
}

void pinned_pool::start_reclaiming() {
  const std::lock_guard lock(mutex_);
  if (context_ != nullptr) context_->start_reclaiming();
}

void pinned_pool::release(std::unique_ptr<releasable> owner) noexcept {
  const std::lock_guard lock(mutex_);
  if (context_ != nullptr) context_->release_later(owner.release());
}

void pinned_pool::trim() noexcept {
  const std::lock_guard lock(mutex_);
  if (context_ != nullptr) reclaim_kept();
}

void pinned_pool::close() noexcept {
  pieces remaining;
  {
    const std::lock_guard lock(mutex_);
    context_ = nullptr;
    remaining.swap(free_pieces_);
    free_bytes_ = 0;
  }
  for (const auto& [bytes, address] : remaining) free_now(address, bytes);
}

std::size_t pinned_pool::held() const noexcept {
  const std::lock_guard lock(mutex_);
  return held_bytes_;
}

}  // namespace sluice::detail
