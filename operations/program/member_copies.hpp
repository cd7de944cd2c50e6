// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sluice/operations/lane_libraries.hpp>

#include <cstddef>
#include <span>

// Copies between the memory of the runs of a batch, each of which has blocks of its own, and memory
// in which they lie one behind the other. Without CUDA they are not linked.
namespace sluice::cuda {

/// Loads the kernels for the device of a lane.
/// @throws error `library_failure`
void load_member_copies(lane_libraries& libraries);
/// Enqueues copies of `bytes` bytes from each of `from` to `to`, and zeros behind them up to
/// `count` times `bytes`.
/// @throws error `library_failure`
void gather_members(lane_libraries& libraries, std::span<void* const> from, void* to,
                    std::size_t bytes, std::size_t count);
/// Enqueues copies of `bytes` bytes from the memory at `from` to each of `to`.
/// @throws error `library_failure`
void scatter_members(lane_libraries& libraries, const void* from, std::span<void* const> to,
                     std::size_t bytes);

}  // namespace sluice::cuda
