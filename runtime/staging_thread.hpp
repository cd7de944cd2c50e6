#pragma once

#include "runtime/one_way_signal.hpp"
#include "runtime/staging_ring.hpp"

#include <sluice/runtime/device.hpp>

#include <atomic>
#include <memory>
#include <thread>

namespace sluice::detail {

/// The thread of a runtime that copies between memory of the process and the slots of staging
/// rings. It serves all rings in turn and never waits for one of them, so that a stream that is
/// stalled delays no transfer of another stream. It makes no driver call: it reads and writes
/// words.
class staging_thread {
 public:
  /// @throws std::system_error, std::bad_alloc
  [[nodiscard]] static std::shared_ptr<staging_thread> start(std::shared_ptr<device> served);
  staging_thread(const staging_thread&) = delete;
  staging_thread& operator=(const staging_thread&) = delete;
  ~staging_thread();

  /// Any thread. Jobs of one ring come in the order of their chunks. Handing a job over tells the
  /// caller nothing of what the thread has seen of streams.
  void take(std::unique_ptr<staging_job> job) noexcept;
  /// Abandons the jobs that are left, and returns when the thread has ended. Jobs that come later
  /// are not served. For one thread; idempotent.
  void stop() noexcept;

 private:
  explicit staging_thread(std::shared_ptr<device> served) : device_(std::move(served)) {}
  static void run(const std::shared_ptr<staging_thread>& self) noexcept;
  void take_inbox(staging_job*& oldest_jobs) noexcept;
  [[nodiscard]] bool advance(staging_job*& oldest_jobs) noexcept;

  const std::shared_ptr<device> device_;
  std::atomic<staging_job*> inbox_{nullptr};  // newest first
  one_way_signal changed_;
  std::atomic<bool> stopping_{false};
  std::thread thread_;
};

}  // namespace sluice::detail
