// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sluice/export.hpp>
#include <sluice/runtime/device.hpp>

#include <functional>
#include <memory>

namespace sluice {

/// The thread of a device on which libraries make plans and handles, which may take seconds.
///
///     planner::client mine(service->planner());
///     mine.post([...] { ... });
///
/// It starts with the first job. Clients take turns: one job of each. Thread-safe.
class SLUICE_EXPORT planner {
 public:
  /// A planner whose thread enters the context of `device`.
  explicit planner(std::shared_ptr<sluice::device> device);
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
    /// A client of `on`.
    explicit client(planner& on) noexcept;
    client(const client&) = delete;
    client& operator=(const client&) = delete;
    /// Drops the client's jobs that have not begun, and waits for the one that runs, except on the
    /// planner's thread.
    ~client();

    /// Runs `job` on the planner's thread, after the client's earlier jobs. `job` must not throw.
    /// If it drops the last owner of the client, it must use nothing of that owner afterwards.
    /// @throws error `device_lost` if the device is lost
    /// @throws std::bad_alloc if there is no memory
    /// @throws std::system_error if the thread cannot be started
    void post(std::function<void()> job);

   private:
    std::shared_ptr<state> on_;
  };

 private:
  std::shared_ptr<state> state_;
};

}  // namespace sluice
