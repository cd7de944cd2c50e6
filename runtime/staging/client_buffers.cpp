// SPDX-License-Identifier: Apache-2.0
#include "runtime/staging/client_buffers.hpp"

#include <sluice/runtime/device.hpp>
#include <sluice/runtime/error.hpp>
#include <sluice/runtime/releasable.hpp>

#include <algorithm>
#include <iterator>
#include <string>
#include <system_error>
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

/// Memory of others with its entry in the registry.
class client_buffers::registered_memory {
 public:
  registered_memory(std::shared_ptr<registry> owner, std::shared_ptr<pinned_pool> pool,
                    std::shared_ptr<void> memory, std::size_t bytes)
      : registry_(std::move(owner)),
        pool_(std::move(pool)),
        first_(static_cast<const std::byte*>(memory.get())),
        pinned_(std::make_unique<foreign_memory>(std::move(memory))) {
    {
      const std::lock_guard lock(registry_->mutex);
      const auto next = registry_->sizes.lower_bound(first_);
      const bool meets_next = next != registry_->sizes.end() && next->first < first_ + bytes;
      const bool meets_previous = next != registry_->sizes.begin() &&
                                  std::prev(next)->first + std::prev(next)->second > first_;
      if (meets_next || meets_previous) {
        throw error(errc::invalid_argument, "a part of the memory is pinned already");
      }
      registry_->sizes.emplace_hint(next, first_, bytes);
    }
    try {
      pinned_->pin(pool_->shared_device(), bytes);
    } catch (...) {
      forget();
      throw;
    }
    registry_->count.fetch_add(1, std::memory_order_relaxed);
  }
  registered_memory(const registered_memory&) = delete;
  registered_memory& operator=(const registered_memory&) = delete;
  ~registered_memory() {
    registry_->count.fetch_sub(1, std::memory_order_relaxed);
    forget();
    pool_->release(std::move(pinned_));
  }
  [[nodiscard]] void* get() const noexcept { return pinned_->get(); }

 private:
  /// Memory that is pinned until it is released.
  class foreign_memory final : public releasable {
   public:
    explicit foreign_memory(std::shared_ptr<void> memory) noexcept : memory_(std::move(memory)) {}
    foreign_memory(const foreign_memory&) = delete;
    foreign_memory& operator=(const foreign_memory&) = delete;
    ~foreign_memory() override {
      if (device_ && !device_->inherited()) device_->unpin(memory_.get());
    }
    void pin(const std::shared_ptr<device>& device, std::size_t bytes) {
      device->pin(memory_.get(), bytes);
      device_ = device;
    }
    [[nodiscard]] void* get() const noexcept { return memory_.get(); }

   private:
    const std::shared_ptr<void> memory_;
    std::shared_ptr<device> device_;  // null until the memory is pinned
  };

  void forget() noexcept {
    const std::lock_guard lock(registry_->mutex);
    registry_->sizes.erase(first_);
  }

  const std::shared_ptr<registry> registry_;
  const std::shared_ptr<pinned_pool> pool_;
  const std::byte* const first_;
  std::unique_ptr<foreign_memory> pinned_;
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

std::shared_ptr<void> client_buffers::add(std::shared_ptr<void> memory, std::size_t bytes) {
  try {
    pool_->start_reclaiming();
  } catch (const std::system_error& e) {
    throw error(errc::out_of_memory, std::string("no thread can be started: ") + e.what());
  }
  const auto result =
      std::make_shared<registered_memory>(registry_, pool_, std::move(memory), bytes);
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
