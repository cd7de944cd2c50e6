// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <map>
#include <memory>
#include <mutex>
#include <utility>

namespace sluice {
class device;
class releasable;
}  // namespace sluice

namespace sluice::detail {

class pinned_pool;
class runtime_context;

/// Owns one piece of pinned memory. Its destructor returns the piece to the pool. Movable, not
/// copyable.
class pinned_memory {
 public:
  pinned_memory() noexcept = default;
  pinned_memory(std::shared_ptr<pinned_pool> pool, std::byte* address, std::size_t bytes) noexcept
      : pool_(std::move(pool)), address_(address), bytes_(bytes) {}
  pinned_memory(pinned_memory&& other) noexcept { swap(other); }
  pinned_memory& operator=(pinned_memory&& other) noexcept {
    pinned_memory source(std::move(other));
    swap(source);
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

/// A limited amount of pinned memory of one runtime.
///
///     if (auto piece = pool->try_acquire(bytes)) {
///       std::memcpy(piece.get(), source, bytes);
///     }  // the piece returns to the pool
///
/// Memory is allocated on demand up to a limit, and kept for reuse up to `max_kept`. The runtime's
/// reclaim thread frees it, because a driver's free of pinned memory may synchronize the device.
/// Returning a piece makes no driver call. Pieces may outlive the runtime. Thread-safe.
class pinned_pool : public std::enable_shared_from_this<pinned_pool> {
 public:
  /// The pool keeps returned pieces for reuse up to this total size, in bytes.
  static constexpr std::size_t max_kept = std::size_t{64} << 20U;

  /// `option` names the limit in errors. It must outlive the pool.
  [[nodiscard]] static std::shared_ptr<pinned_pool> make(runtime_context& context,
                                                         std::size_t limit, const char* option);
  pinned_pool(const pinned_pool&) = delete;
  pinned_pool& operator=(const pinned_pool&) = delete;
  ~pinned_pool();

  /// A piece of at least `bytes` bytes, or none if that would exceed the limit. Never waits. If
  /// only kept pieces exhaust the limit, they are handed to the reclaim thread.
  /// @throws error `out_of_memory`
  /// @throws error `device_lost`
  /// @throws std::bad_alloc
  [[nodiscard]] pinned_memory try_acquire(std::size_t bytes);
  /// Refuses a request of `bytes` that `try_acquire` did not meet. The message names the limit and
  /// the bytes that await release.
  /// @throws error `over_budget`, always
  [[noreturn]] void refuse(std::size_t bytes) const;

  /// The device whose memory this is.
  [[nodiscard]] const std::shared_ptr<device>& shared_device() const noexcept { return device_; }
  /// Starts the reclaim thread, for `release`.
  /// @throws std::system_error if it cannot be started
  void start_reclaiming();
  /// Has the reclaim thread destroy an object that owns pinned memory; the calling thread after the
  /// runtime's end.
  void release(std::unique_ptr<releasable> owner) noexcept;

  /// Hands every kept piece to the reclaim thread.
  void trim() noexcept;
  /// Frees every kept piece. Pieces that return later are freed by the returning thread. The
  /// runtime calls it at its end, before its reclaim thread ends.
  void close() noexcept;

  /// Bytes allocated and not yet freed: in use, kept, or waiting for the reclaim thread.
  [[nodiscard]] std::size_t held() const noexcept;
  [[nodiscard]] std::size_t limit() const noexcept { return limit_; }

 private:
  friend class pinned_memory;
  using pieces = std::multimap<std::size_t, std::byte*>;  // by size

  pinned_pool(runtime_context& context, std::size_t limit, const char* option);
  void give_back(std::byte* address, std::size_t bytes) noexcept;
  /// Hands a piece to the reclaim thread, under the lock. False if that is impossible.
  [[nodiscard]] bool reclaim(std::byte* address, std::size_t bytes) noexcept;
  /// Hands kept pieces to the reclaim thread, under the lock.
  void reclaim_kept() noexcept;
  /// Frees memory on the calling thread. `awaited_bytes` of its bytes were counted for the reclaim
  /// thread.
  void free_now(void* address, std::size_t bytes, std::size_t awaited_bytes = 0) noexcept;

  const std::shared_ptr<device> device_;
  const std::size_t limit_;
  const char* const option_;
  mutable std::mutex mutex_;
  runtime_context* context_;  // null after the runtime's end
  pieces free_pieces_;
  std::size_t free_bytes_ = 0;
  std::size_t awaited_bytes_ = 0;  // bytes that the reclaim thread will free
  std::size_t held_bytes_ = 0;
};

}  // namespace sluice::detail
