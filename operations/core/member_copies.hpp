// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sluice/operations/lane_libraries.hpp>

#include <cstddef>
#include <span>

// Copies between the memory of the runs of a batch, each of which has blocks of its own, and memory
// in which they have places. Without CUDA they are not linked.
namespace sluice::cuda {

/// The memory of one run: rows without gaps.
struct member_row {
  void* address = nullptr;
  std::size_t bytes = 0;  ///< of a row, at most that of a place and less than 4 GiB
};
/// `count` places, each of `rows` rows with `row_bytes` bytes, without gaps: one place behind the
/// other, or, if they interleave, the first rows of all places, then the second ones and so on.
struct member_places {
  std::size_t count = 0;
  std::size_t rows = 0;
  std::size_t row_bytes = 0;
  bool interleave = false;
  /// The bytes from a row of a place to that of the next place.
  [[nodiscard]] std::size_t place_stride() const noexcept {
    return interleave ? row_bytes : rows * row_bytes;
  }
  /// The bytes from a row of a place to its next one.
  [[nodiscard]] std::size_t row_stride() const noexcept {
    return interleave ? count * row_bytes : row_bytes;
  }
};

/// Loads the kernels for the device of a lane.
/// @throws error `library_failure`
void load_member_copies(lane_libraries& libraries);
/// Enqueues copies from each of `sources` to its place at `destination`. What is left of the places
/// becomes 0.
/// @throws error `library_failure`
void gather_members(lane_libraries& libraries, std::span<const member_row> sources,
                    void* destination, const member_places& places);
/// Enqueues copies from the places at `source` to each of `destinations`.
/// @throws error `library_failure`
void scatter_members(lane_libraries& libraries, const void* source,
                     std::span<const member_row> destinations, const member_places& places);

}  // namespace sluice::cuda

namespace sluice::operations {

/// The functions above, by which batches copy.
struct member_copy_functions {
  decltype(&cuda::load_member_copies) load = nullptr;
  decltype(&cuda::gather_members) gather = nullptr;
  decltype(&cuda::scatter_members) scatter = nullptr;
};
/// Those of this build. Tests with a host device that presents itself as a GPU replace them.
[[nodiscard]] member_copy_functions& member_copies() noexcept;

}  // namespace sluice::operations
