#include "runtime/staging_pool.hpp"

#include <bit>

namespace sluice::detail {
namespace {

constexpr std::size_t smallest = 4096;

std::size_t size_class(std::size_t bytes) {
  return bytes <= smallest ? smallest : std::bit_ceil(bytes);
}

}  // namespace

staging_pool::~staging_pool() {
  for (auto& [bytes, blocks] : kept_) {
    for (auto* block : blocks) device_->deallocate_staging(block);
  }
}

std::shared_ptr<std::byte> staging_pool::acquire(std::size_t bytes) {
  const auto rounded = size_class(bytes);
  std::byte* block = nullptr;
  {
    const std::lock_guard lock(mutex_);
    auto& blocks = kept_[rounded];
    if (!blocks.empty()) {
      block = blocks.back();
      blocks.pop_back();
      kept_bytes_ -= rounded;
    }
  }
  if (block == nullptr) block = static_cast<std::byte*>(device_->allocate_staging(rounded));
  return {block, [pool = shared_from_this(), rounded](std::byte* b) {
            pool->give_back(b, rounded);
          }};
}

void staging_pool::give_back(std::byte* block, std::size_t bytes) noexcept {
  {
    const std::lock_guard lock(mutex_);
    if (kept_bytes_ + bytes <= most_kept) {
      try {
        kept_[bytes].push_back(block);
        kept_bytes_ += bytes;
        return;
      } catch (...) {
        // No memory to note it: freed instead.
      }
    }
  }
  device_->deallocate_staging(block);
}

}  // namespace sluice::detail
