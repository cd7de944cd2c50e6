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
    const auto found = kept_.lower_bound(bytes);
    const bool fits = bytes <= limit_ && held_ <= limit_ - bytes;
    if (found != kept_.end() && (!fits || found->first / largest_excess < bytes)) {
      piece = pinned_memory(shared_from_this(), found->second, found->first);
      kept_bytes_ -= found->first;
      kept_.erase(found);
      return piece;
    }
    if (!fits) {
      // If freeing cannot make the request fit, nothing is freed.
      if (bytes <= limit_ && held_ - kept_bytes_ - awaiting_ <= limit_ - bytes) reclaim_kept();
      return {};
    }
    held_ += bytes;
  }
  try {
    auto* const address = static_cast<std::byte*>(device_->allocate_staging(bytes));
    return {shared_from_this(), address, bytes};
  } catch (...) {
    const std::lock_guard lock(mutex_);
    held_ -= bytes;
    throw;
  }
}

void pinned_pool::refuse(std::size_t bytes) const {
  const std::lock_guard lock(mutex_);
  throw error(errc::over_budget, "pinned memory: " + std::to_string(bytes) +
                                     " bytes would exceed the limit of " + std::to_string(limit_) +
                                     " bytes (runtime_options::" + option_ +
                                     "): " + std::to_string(held_) + " are held, of which " +
                                     std::to_string(awaiting_) + " await release");
}

void pinned_pool::give_back(std::byte* address, std::size_t bytes) noexcept {
  if (device_->inherited()) return;
  {
    const std::lock_guard lock(mutex_);
    if (context_ != nullptr) {
      try {
        if (kept_bytes_ + bytes <= max_kept || !reclaim(address, bytes)) {
          kept_.emplace(bytes, address);
          kept_bytes_ += bytes;
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
  awaiting_ += bytes;
  return true;
}

void pinned_pool::reclaim_kept() noexcept {
  for (auto piece = kept_.begin(); piece != kept_.end();) {
    if (!reclaim(piece->second, piece->first)) return;
    kept_bytes_ -= piece->first;
    piece = kept_.erase(piece);
  }
}

void pinned_pool::free_now(void* address, std::size_t bytes, std::size_t awaited) noexcept {
  device_->deallocate_staging(address);
  const std::lock_guard lock(mutex_);
  held_ -= bytes;
  awaiting_ -= awaited;
}

void pinned_pool::trim() noexcept {
  const std::lock_guard lock(mutex_);
  if (context_ != nullptr) reclaim_kept();
}

void pinned_pool::close() noexcept {
  pieces left;
  {
    const std::lock_guard lock(mutex_);
    context_ = nullptr;
    left.swap(kept_);
    kept_bytes_ = 0;
  }
  for (const auto& [bytes, address] : left) free_now(address, bytes);
}

std::size_t pinned_pool::held() const noexcept {
  const std::lock_guard lock(mutex_);
  return held_;
}

}  // namespace sluice::detail
