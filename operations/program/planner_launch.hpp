// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sluice/operations/lane_libraries.hpp>
#include <sluice/runtime/gpu_ref.hpp>

#include <cstddef>
#include <functional>
#include <memory>
#include <span>

namespace sluice::operations {

/// A block that the planner allocates.
struct planner_block {
  std::size_t bytes = 0;
  /// The sizes of other blocks, in bytes. The device must have memory for all of them beside this
  /// block, at the time of its allocation.
  std::span<const std::size_t> spare_sizes{};
  allocation_tag tag{};
};

/// The work that writes a block. The planner keeps a stream and library objects of its own on each
/// lane, because the owner of the lane may use those of the lane meanwhile. The functions get
/// these, and the lane owns them.
struct planner_work {
  std::shared_ptr<const void> owner{};  ///< of all that the launch uses
  /// Makes what the launch needs, before anything is leased: library objects, host memory. May be
  /// null.
  std::function<void(lane_libraries&)> prepare{};
  /// Enqueues the launch. The block begins at its second argument. If it throws
  /// `nothing_enqueued`, the launch is cancelled.
  std::function<void(lane_libraries&, void*)> enqueue{};
};

/// Allocates memory that stays as it is once it has been written, and writes it on the planner's
/// stream of the lane. Waits for the device, so a launch on any stream may read the block
/// afterwards without recording it. Only the planner calls it.
/// @throws error as `work.prepare`, an allocation, a launch and `work.enqueue`
[[nodiscard]] block_ref written_block(lane_libraries& libraries, const planner_block& block,
                                      const planner_work& work);

}  // namespace sluice::operations
