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

/// The thread of a runtime that copies between host memory and the slots of staging rings.
///
/// It serves all rings in turn and never waits for one of them, so a stalled stream delays no
/// transfer of another stream. It makes no driver call and runs no code of the program. It only
/// copies, reads and writes words, and pushes finished jobs on the release list.
class staging_thread {
 public:
  /// Starts the thread. The runtime stops it at its own end.
  /// @throws std::system_error if the thread cannot be started
  /// @throws std::bad_alloc
  [[nodiscard]] static std::shared_ptr<staging_thread> start(runtime_context& context);
  staging_thread(const staging_thread&) = delete;
  staging_thread& operator=(const staging_thread&) = delete;
  ~staging_thread() = default;

  /// Takes `job` over. False once the thread has stopped: the job then stays with the caller. Jobs
  /// of one ring must arrive in the order of their chunks. The call acquires nothing that the
  /// thread has seen of streams. Callable from any thread.
  [[nodiscard]] bool take(std::unique_ptr<staging_job>& job) noexcept;
  /// The number of jobs that have been taken and are not finished.
  [[nodiscard]] std::size_t jobs() const noexcept { return jobs_.load(std::memory_order_relaxed); }
  /// Abandons the remaining jobs and joins the thread. If any job remains, the device is lost.
  /// Idempotent. Only for one thread at a time.
  void stop() noexcept;

 private:
  explicit staging_thread(runtime_context& context) noexcept : context_(context) {}
  void run() noexcept;
  void take_inbox(staging_job*& oldest_jobs, staging_job* end) noexcept;
  [[nodiscard]] bool advance(staging_job*& oldest_jobs) noexcept;

  runtime_context& context_;
  // Newest first. `closed_inbox` once the thread has stopped.
  std::atomic<staging_job*> inbox_{nullptr};
  std::atomic<std::size_t> jobs_{0};
  one_way_signal changed_;
  std::atomic<bool> stopping_{false};
  std::thread thread_;
};

}  // namespace sluice::detail
