// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <map>
#include <memory>
#include <mutex>
#include <utility>

namespace sluice {
class device;
}

namespace sluice::detail {

class pinned_pool;
class runtime_context;

/// Owns one piece of pinned memory; destroying it returns the piece to its pool.
class pinned_memory {
 public:
  pinned_memory() noexcept = default;
  pinned_memory(std::shared_ptr<pinned_pool> pool, std::byte* address, std::size_t bytes) noexcept
      : pool_(std::move(pool)), address_(address), bytes_(bytes) {}
  pinned_memory(pinned_memory&& other) noexcept { swap(other); }
  pinned_memory& operator=(pinned_memory&& other) noexcept {
    pinned_memory taken(std::move(other));
    swap(taken);
    return *this;
  }
  ~pinned_memory();

  [[nodiscard]] explicit operator bool() const noexcept { return address_ != nullptr; }
  [[nodiscard]] std::byte* get() const noexcept { return address_; }

 private:
  void swap(pinned_memory& other) noexcept {
    std::swap(pool_, other.pool_);
    std::swap(address_, other.address_);
    std::swap(bytes_, other.bytes_);
  }

  std::shared_ptr<pinned_pool> pool_;
  std::byte* address_ = nullptr;
  std::size_t bytes_ = 0;
};

/// The pinned memory of one runtime: allocated on demand up to a limit, kept for reuse up to a
/// smaller one, and freed by the runtime's reclaim thread, because a driver's free of pinned memory
/// may synchronise the device. Returning a piece makes no driver call. Thread-safe; pieces may
/// outlive the runtime.
class pinned_pool : public std::enable_shared_from_this<pinned_pool> {
 public:
  /// Returned pieces are kept for reuse up to this many bytes in total.
  static constexpr std::size_t most_kept = std::size_t{64} << 20U;

  [[nodiscard]] static std::shared_ptr<pinned_pool> make(runtime_context& context,
                                                         std::size_t limit);
  pinned_pool(const pinned_pool&) = delete;
  pinned_pool& operator=(const pinned_pool&) = delete;
  ~pinned_pool();

  /// At least `bytes` bytes, or nothing where that would exceed the limit. Kept pieces that stand
  /// in the way of the limit are then on their way to the reclaim thread. Does not wait.
  /// @throws error `out_of_memory`, `device_lost`; std::bad_alloc
  [[nodiscard]] pinned_memory try_acquire(std::size_t bytes);
  /// Throws the error for a request of `bytes` that `try_acquire` did not meet.
  /// @throws error `over_budget`, naming the limit and the bytes that await release
  [[noreturn]] void refuse(std::size_t bytes) const;

  /// Hands every kept piece to the reclaim thread.
  void trim() noexcept;
  /// Frees every kept piece. Pieces that return later are freed by the returning thread. The
  /// runtime calls it when it ends, before its reclaim thread does.
  void close() noexcept;

  /// Bytes allocated and not freed yet, whether in use, kept or waiting for the reclaim thread.
  [[nodiscard]] std::size_t held() const noexcept;
  [[nodiscard]] std::size_t limit() const noexcept { return limit_; }

 private:
  friend class pinned_memory;
  using pieces = std::multimap<std::size_t, std::byte*>;  // by size

  pinned_pool(runtime_context& context, std::size_t limit);
  void give_back(std::byte* address, std::size_t bytes) noexcept;
  /// Under the lock. False when the reclaim thread could not take the piece over.
  [[nodiscard]] bool reclaim(std::byte* address, std::size_t bytes) noexcept;
  /// Under the lock: hands kept pieces to the reclaim thread.
  void reclaim_kept() noexcept;
  /// `awaited`: bytes of it that the reclaim thread was to free.
  void free_now(void* address, std::size_t bytes, std::size_t awaited = 0) noexcept;

  const std::shared_ptr<device> device_;
  const std::size_t limit_;
  mutable std::mutex mutex_;
  runtime_context* context_;  // null once the runtime has ended
  pieces kept_;
  std::size_t kept_bytes_ = 0;
  std::size_t awaiting_ = 0;  // bytes that the reclaim thread is to free
  std::size_t held_ = 0;
};

}  // namespace sluice::detail
