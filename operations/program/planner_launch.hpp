// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sluice/operations/lane_libraries.hpp>
#include <sluice/runtime/gpu_ref.hpp>

#include <cstddef>
#include <functional>
#include <memory>
#include <span>
#include <string_view>

namespace sluice::operations {

/// Allocates memory that stays as it is once it has been written, and writes it on a stream that
/// the lane keeps for this: the owner of the lane may launch on the stream of the lane meanwhile.
/// Waits for the device. Only the planner calls it.
/// @param spare_sizes sizes of blocks, in bytes: the device must have memory for all of them beside
/// this block, at the time of its allocation
/// @param write enqueues the work: the stream and the library objects are those of its first
/// argument, the memory begins at the second one
/// @param owner owns all that the work uses
/// @throws error as an allocation, a launch and `write`
[[nodiscard]] block_ref written_block(lane_libraries& libraries, std::size_t bytes,
                                      std::span<const std::size_t> spare_sizes, allocation_tag tag,
                                      std::shared_ptr<const void> owner,
                                      const std::function<void(lane_libraries&, void*)>& write);

}  // namespace sluice::operations
