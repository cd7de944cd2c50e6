// SPDX-License-Identifier: Apache-2.0
#include "runtime/staging/client_buffers.hpp"

#include <algorithm>
#include <utility>

namespace sluice::detail {

/// A buffer with its entry in the registry.
class client_buffers::buffer {
 public:
  buffer(std::shared_ptr<registry> owner, pinned_memory memory, std::size_t bytes)
      : registry_(std::move(owner)), memory_(std::move(memory)) {
    const std::lock_guard lock(registry_->mutex);
    registry_->sizes.emplace(memory_.get(), bytes);
    registry_->count.fetch_add(1, std::memory_order_relaxed);
  }
  buffer(const buffer&) = delete;
  buffer& operator=(const buffer&) = delete;
  ~buffer() {
    // Before the memory returns to the pool, which may hand it out again.
    const std::lock_guard lock(registry_->mutex);
    registry_->sizes.erase(memory_.get());
    registry_->count.fetch_sub(1, std::memory_order_relaxed);
  }
  [[nodiscard]] void* get() const noexcept { return memory_.get(); }

 private:
  const std::shared_ptr<registry> registry_;
  const pinned_memory memory_;
};

client_buffers::client_buffers(std::shared_ptr<pinned_pool> pool) : pool_(std::move(pool)) {}
client_buffers::~client_buffers() = default;

std::shared_ptr<void> client_buffers::allocate(std::size_t bytes) {
  const auto size = std::max<std::size_t>(bytes, 1);
  auto memory = pool_->try_acquire(size);
  if (!memory) pool_->refuse(size);
  const auto result = std::make_shared<buffer>(registry_, std::move(memory), size);
  return {result, result->get()};
}

bool client_buffers::contain(const void* first, std::size_t bytes) const noexcept {
  // Without a buffer there is nothing to look for. Who passes one to another thread orders this.
  if (registry_->count.load(std::memory_order_relaxed) == 0) return false;
  const auto* const begin = static_cast<const std::byte*>(first);
  const std::lock_guard lock(registry_->mutex);
  auto position = registry_->sizes.upper_bound(begin);
  if (position == registry_->sizes.begin()) return false;
  --position;
  const auto offset = static_cast<std::size_t>(begin - position->first);
  return offset <= position->second && bytes <= position->second - offset;
}

}  // namespace sluice::detail
