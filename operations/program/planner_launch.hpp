// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sluice/operations/lane_libraries.hpp>
#include <sluice/runtime/gpu_ref.hpp>

#include <cstddef>
#include <functional>
#include <memory>
#include <span>
#include <vector>

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

/// The library objects that the planner keeps on a lane, with its stream.
[[nodiscard]] lane_libraries& planner_libraries(lane_libraries& libraries);

/// Blocks of these sizes, in bytes, on the planner's stream of the lane. A budget grants all of
/// them or none.
/// @throws error as an allocation
[[nodiscard]] std::vector<block_ref> planner_blocks(lane_libraries& libraries,
                                                    std::span<const std::size_t> sizes,
                                                    allocation_tag tag);

/// Writes blocks of `planner_blocks` with one launch, and waits for the device, as `written_block`
/// does. `enqueue` puts the work on the planner's stream, and `owner` owns all that it uses.
/// @throws error as a launch and `enqueue`
void write_blocks(lane_libraries& libraries, std::span<const block_ref> targets,
                  std::shared_ptr<const void> owner, const std::function<void()>& enqueue);

/// Allocates memory that stays as it is once it has been written, and writes it on the planner's
/// stream of the lane. Waits for the device, so a launch on any stream may read the block
/// afterwards without recording it. Only the planner calls it.
/// @throws error as `work.prepare`, an allocation, a launch and `work.enqueue`
[[nodiscard]] block_ref written_block(lane_libraries& libraries, const planner_block& block,
                                      const planner_work& work);

}  // namespace sluice::operations
