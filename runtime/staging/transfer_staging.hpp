// SPDX-License-Identifier: Apache-2.0
#pragma once

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

/// What the transfers of one runtime share: its pinned memory, a staging ring for each stream that
/// transfers, and the staging thread. Thread-safe.
class transfer_staging {
 public:
  /// Transfers up to this size use a piece of their own instead of a ring.
  static constexpr std::size_t piece_bytes = std::size_t{64} << 10U;

  transfer_staging(runtime_context& context, std::size_t limit);
  transfer_staging(const transfer_staging&) = delete;
  transfer_staging& operator=(const transfer_staging&) = delete;
  ~transfer_staging() { close({}); }

  /// `piece_bytes` bytes, or nothing where the limit of pinned memory is reached.
  /// @throws error `out_of_memory`, `device_lost`; std::bad_alloc
  [[nodiscard]] pinned_memory try_piece() { return pool_->try_acquire(piece_bytes); }
  /// The ring of `stream`, for a transfer of `bytes` bytes. It returns its memory when the last
  /// transfer that uses it has gone. @throws error `over_budget`, `unsupported`, `out_of_memory`,
  /// `device_lost`; std::bad_alloc, std::system_error
  [[nodiscard]] std::shared_ptr<staging_ring> ring_for(timeline& stream, std::size_t bytes);

  [[nodiscard]] pinned_pool& pool() noexcept { return *pool_; }
  /// At the runtime's end: waits for transfers under way until `end`, ends the staging thread and
  /// frees what the pool keeps.
  void close(std::chrono::steady_clock::time_point end) noexcept;

 private:
  /// Under the lock: the ring of `stream` if it serves a transfer of `bytes` bytes.
  [[nodiscard]] std::shared_ptr<staging_ring> known_ring(timeline& stream, std::size_t bytes);
  [[nodiscard]] std::shared_ptr<staging_ring> make_ring(
      const std::shared_ptr<staging_thread>& thread, std::size_t bytes);

  runtime_context& context_;
  const std::shared_ptr<pinned_pool> pool_;
  std::mutex mutex_;
  std::shared_ptr<staging_thread> thread_;
  bool closed_ = false;
  std::map<const timeline*, std::weak_ptr<staging_ring>> rings_;
};

}  // namespace sluice::detail
