// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sluice/export.hpp>
#include <sluice/runtime/device.hpp>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>

namespace sluice {

/// The thread of a device on which libraries make plans and handles, which may take seconds.
///
///     planner::client mine(service->planner());
///     mine.post([...] { ... });
///
/// It starts with the first job. Clients take turns: one job of each. Long jobs do not stand before
/// short ones: on the host device they have a thread of their own, on a GPU, whose libraries lock
/// the driver while they plan, a short job comes first unless a long one has waited for 16 of them.
/// Idle jobs begin only while no other job waits for the thread, on the host device for that of the
/// long ones. Thread-safe.
class SLUICE_EXPORT planner {
 public:
  /// How long a job takes: long ones take about 20 ms or more. An idle job, of any length, is one
  /// that nobody waits for. It asks `client::others_wait` from time to time.
  enum class job_length : std::uint8_t { short_job, long_job, idle_job };

  /// A planner whose thread enters the context of `device`. `threads` is 1, or 2 with a thread for
  /// long jobs; 0: 2 on the host device and 1 on a GPU.
  explicit planner(std::shared_ptr<sluice::device> device, std::size_t threads = 0);
  planner(const planner&) = delete;
  planner& operator=(const planner&) = delete;
  /// Drops the jobs that have not begun, and waits for the one that runs, except on the planner's
  /// thread.
  ~planner();

 private:
  class state;

 public:
  /// The jobs of one client.
  class SLUICE_EXPORT client {
   public:
    /// A client of `planner`.
    explicit client(planner& planner) noexcept;
    client(const client&) = delete;
    client& operator=(const client&) = delete;
    /// Drops the client's jobs that have not begun, and waits for the one that runs, except on the
    /// planner's thread.
    ~client();

    /// Runs `job` on the planner's thread, after the client's earlier jobs of the same length, and
    /// after a job of each other client that waits when one of its own ends. `job` must not throw.
    /// If it drops the last owner of the client, it must use nothing of that owner afterwards.
    /// @throws error `device_lost` if the device is lost
    /// @throws std::bad_alloc if there is no memory
    /// @throws std::system_error if the thread cannot be started
    void post(std::function<void()> job, job_length length = job_length::short_job);
    /// Drops the client's jobs that have not begun, and waits for none.
    void drop_waiting() noexcept;
    /// Whether the idle job of the client that runs is to end soon, because a short or long job
    /// waits for its thread, or because `drop_waiting` or the destructor has been called.
    [[nodiscard]] bool others_wait() const noexcept;

   private:
    std::shared_ptr<state> state_;
  };

 private:
  std::shared_ptr<state> state_;
};

}  // namespace sluice
