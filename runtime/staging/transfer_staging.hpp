// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "runtime/staging/client_buffers.hpp"
#include "runtime/staging/pinned_pool.hpp"
#include "runtime/staging/staging_ring.hpp"

#include <chrono>
#include <cstddef>
#include <map>
#include <memory>
#include <mutex>

namespace sluice::detail {

class runtime_context;
class staging_thread;
class timeline;

/// The state that the transfers of one runtime share: pinned memory, a staging ring for each stream
/// that transfers, and the staging thread. Thread-safe.
class transfer_staging {
 public:
  /// Transfers up to this size, in bytes, use a piece of their own instead of a ring.
  static constexpr std::size_t piece_bytes = std::size_t{64} << 10U;

  /// The limits of pinned memory in bytes; see `runtime_options`. 0: the usual one.
  struct limits {
    std::size_t transfers = 0;
    std::size_t clients = 0;
  };

  transfer_staging(runtime_context& context, limits bounds);
  transfer_staging(const transfer_staging&) = delete;
  transfer_staging& operator=(const transfer_staging&) = delete;
  ~transfer_staging() { close({}); }

  /// A piece of `piece_bytes` bytes, or none if the limit of pinned memory is reached.
  /// @throws error `out_of_memory`
  /// @throws error `device_lost`
  /// @throws std::bad_alloc
  [[nodiscard]] pinned_memory try_piece() { return pool_->try_acquire(piece_bytes); }
  /// The ring of `stream`, for a transfer of `bytes` bytes. Its memory returns to the pool with the
  /// last transfer that uses it.
  /// @throws error `over_budget` if the limit of pinned memory is reached
  /// @throws error `unsupported` if the driver has no stream memory operations
  /// @throws error `out_of_memory`
  /// @throws error `device_lost`
  /// @throws error `shutting_down`
  /// @throws std::bad_alloc
  /// @throws std::system_error if a thread cannot be started
  [[nodiscard]] std::shared_ptr<staging_ring> ring_for(timeline& stream, std::size_t bytes);

  [[nodiscard]] pinned_pool& pool() noexcept { return *pool_; }
  [[nodiscard]] client_buffers& clients() noexcept { return clients_; }
  /// Waits until `end` for transfers in progress, ends the staging thread, and frees the memory
  /// that the pool keeps. Called at the runtime's end.
  void close(std::chrono::steady_clock::time_point end) noexcept;

 private:
  /// The ring of `stream` if it can serve a transfer of `bytes` bytes. Under the lock.
  [[nodiscard]] std::shared_ptr<staging_ring> known_ring(timeline& stream, std::size_t bytes);
  [[nodiscard]] std::shared_ptr<staging_ring> make_ring(
      const std::shared_ptr<staging_thread>& thread, std::size_t bytes);

  runtime_context& context_;
  const std::shared_ptr<pinned_pool> pool_;
  client_buffers clients_;
  std::mutex mutex_;
  std::shared_ptr<staging_thread> thread_;
  bool closed_ = false;
  std::map<const timeline*, std::weak_ptr<staging_ring>> rings_;
};

}  // namespace sluice::detail
