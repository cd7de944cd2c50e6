// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "tests/support/pretended_gpu.hpp"

#include <sluice/runtime/host_device.hpp>

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <thread>

namespace sluice::test {

/// A pretended GPU that counts pinned memory, notes the threads that free it, and fails copies.
class pinning_gpu : public pretended_gpu {
 public:
  explicit pinning_gpu(std::shared_ptr<device> real = open_host_device())
      : pretended_gpu(0, std::move(real)) {}

  /// Bytes of pinned memory: now, and the largest number so far.
  [[nodiscard]] std::size_t pinned() const {
    const std::lock_guard lock(mutex_);
    return pinned_;
  }
  [[nodiscard]] std::size_t peak() const {
    const std::lock_guard lock(mutex_);
    return peak_;
  }
  /// The threads that have freed pinned memory.
  [[nodiscard]] std::set<std::thread::id> freed_by() const {
    const std::lock_guard lock(mutex_);
    return freed_by_;
  }
  /// Makes the n-th copy from now on throw, counted from 1.
  void fail_copy(int nth) { copies_left_ = nth; }

  void* allocate_staging(std::size_t bytes) override {
    void* const address = pretended_gpu::allocate_staging(bytes);
    const std::lock_guard lock(mutex_);
    sizes_[address] = bytes;
    pinned_ += bytes;
    peak_ = std::max(peak_, pinned_);
    return address;
  }
  void deallocate_staging(void* address) noexcept override {
    {
      const std::lock_guard lock(mutex_);
      pinned_ -= sizes_.extract(address).mapped();
      freed_by_.insert(std::this_thread::get_id());
    }
    pretended_gpu::deallocate_staging(address);
  }
  void pin(void* address, std::size_t bytes) override {
    pretended_gpu::pin(address, bytes);
    const std::lock_guard lock(mutex_);
    sizes_[address] = bytes;
    pinned_ += bytes;
  }
  void unpin(void* address) noexcept override {
    {
      const std::lock_guard lock(mutex_);
      pinned_ -= sizes_.extract(address).mapped();
      freed_by_.insert(std::this_thread::get_id());
    }
    pretended_gpu::unpin(address);
  }
  void copy(void* destination, const void* source, std::size_t bytes, copy_direction direction,
            native_stream* s) override {
    if (copies_left_ > 0 && --copies_left_ == 0) {
      throw error(errc::library_failure, "planted: a copy failed");
    }
    pretended_gpu::copy(destination, source, bytes, direction, s);
  }

 private:
  mutable std::mutex mutex_;
  std::map<void*, std::size_t> sizes_;
  std::size_t pinned_ = 0;
  std::size_t peak_ = 0;
  std::set<std::thread::id> freed_by_;
  std::atomic<int> copies_left_{0};
};

}  // namespace sluice::test
