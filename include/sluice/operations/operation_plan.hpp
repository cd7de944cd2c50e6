// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sluice/export.hpp>

#include <cstddef>

namespace sluice {

class lane_libraries;

namespace operations {

class batch_growth;

}  // namespace operations

/// The size that a plan may have, in bytes.
struct plan_limits {
  std::size_t host_bytes = 0;    ///< of the process
  std::size_t device_bytes = 0;  ///< with the workspace
};

/// What a plan costs, as far as it is known before the plan is made.
struct plan_price {
  /// The work of a plan whose operation states none: about a millisecond.
  static constexpr double usual_work = 1 << 20U;
  std::size_t host_bytes = 0;  ///< its size in host memory; 0 if only the plan itself tells it
  double work = usual_work;    ///< of the planner, in nanoseconds of one core of a processor
};

/// What a library works out once for a launch key: an algorithm, tables, a handle.
///
/// It holds no operands. Launches keep the plans that they use. The runtime's reclaim thread
/// destroys the plans of an executor, because that may block in the driver.
class SLUICE_EXPORT operation_plan {
 public:
  operation_plan() = default;
  operation_plan(const operation_plan&) = delete;
  operation_plan& operator=(const operation_plan&) = delete;
  virtual ~operation_plan() = default;
  /// The size of the plan in host memory, in bytes, as far as it is known.
  [[nodiscard]] virtual std::size_t bytes() const noexcept { return 0; }
  /// The device memory that the plan itself holds, in bytes, as far as it is known. It is charged
  /// to the memory budget until the plan has been destroyed.
  [[nodiscard]] virtual std::size_t device_bytes() const noexcept { return 0; }
  /// The part of device memory that plans share which falls to this one, in bytes: an allocation
  /// divided by the number of its owners. It is charged as an allocation.
  [[nodiscard]] virtual std::size_t shared_device_bytes() const noexcept { return 0; }
  /// The scratch memory that each launch needs, in bytes. Launches of one lane share it.
  [[nodiscard]] virtual std::size_t workspace_bytes() const noexcept { return 0; }
  /// The most device commands that a launch enqueues because of the plan.
  [[nodiscard]] virtual std::size_t commands() const noexcept { return 1; }
  /// Adds what batches need beyond single launches, as far as the plan stays within `limits` and
  /// the memory budget. The planner calls it once, before the first launch.
  virtual void add_batches(lane_libraries& /*libraries*/,
                           const plan_limits& /*limits*/) const noexcept {}
  /// How it gets what batches need while launches use it; nullptr: it gets nothing.
  [[nodiscard]] virtual operations::batch_growth* growth() const noexcept { return nullptr; }
  /// The scratch memory that a batch of launches needs, in bytes.
  [[nodiscard]] virtual std::size_t batch_workspace_bytes() const noexcept {
    return workspace_bytes();
  }
  /// The most device commands that a batch of `count` launches enqueues because of the plan.
  [[nodiscard]] virtual std::size_t batch_commands(std::size_t count) const noexcept {
    return count * commands();
  }
  /// Whether no request can use the plan any more, because what it was made for is gone.
  [[nodiscard]] virtual bool obsolete() const noexcept { return false; }
  /// Whether `improve` shall be called now. True once. The owner of the lane asks after a launch.
  [[nodiscard]] virtual bool wants_improvement() const noexcept { return false; }
  /// Makes later launches of the plan faster. The planner calls it while the owner launches.
  virtual void improve(lane_libraries& /*libraries*/) const noexcept {}
  /// Whether launches are one graph of the device; see `capture_policy`.
  [[nodiscard]] virtual bool captured() const noexcept { return false; }
  /// Whether they were to be one and cannot be.
  [[nodiscard]] virtual bool refuses_capture() const noexcept { return false; }
};

}  // namespace sluice
