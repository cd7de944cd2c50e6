// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "runtime/staging/staging_ring.hpp"
#include "runtime/sync/one_way_signal.hpp"

#include <atomic>
#include <cstddef>
#include <memory>
#include <thread>

namespace sluice::detail {

class runtime_context;

/// The thread of a runtime that copies between memory of the process and the slots of staging
/// rings. It serves all rings in turn and never waits for one of them, so that a stream that is
/// stalled delays no transfer of another stream. It makes no driver call and runs no code of the
/// user's: it copies, reads and writes words, and leaves finished jobs to the reclaim thread.
class staging_thread {
 public:
  /// The runtime stops it before it ends. @throws std::system_error, std::bad_alloc
  [[nodiscard]] static std::shared_ptr<staging_thread> start(runtime_context& context);
  staging_thread(const staging_thread&) = delete;
  staging_thread& operator=(const staging_thread&) = delete;
  ~staging_thread() = default;

  /// Any thread. Jobs of one ring come in the order of their chunks. Handing a job over tells the
  /// caller nothing of what the thread has seen of streams. Returns false, and leaves the job with
  /// the caller, once the thread has stopped.
  [[nodiscard]] bool take(std::unique_ptr<staging_job>& job) noexcept;
  /// Jobs that have been taken and are not finished.
  [[nodiscard]] std::size_t jobs() const noexcept { return jobs_.load(std::memory_order_relaxed); }
  /// Abandons the jobs that are left, which loses the device, and returns when the thread has
  /// ended. For one thread; idempotent.
  void stop() noexcept;

 private:
  explicit staging_thread(runtime_context& context) noexcept : context_(context) {}
  void run() noexcept;
  void take_inbox(staging_job*& oldest_jobs, staging_job* left) noexcept;
  [[nodiscard]] bool advance(staging_job*& oldest_jobs) noexcept;

  runtime_context& context_;
  std::atomic<staging_job*> inbox_{nullptr};  // newest first; `closed_inbox` once it has stopped
  std::atomic<std::size_t> jobs_{0};
  one_way_signal changed_;
  std::atomic<bool> stopping_{false};
  std::thread thread_;
};

}  // namespace sluice::detail
