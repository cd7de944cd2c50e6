// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <vector>

namespace sluice::operations {

/// Memory that is needed from the step `first` to the step `last`, both included.
struct scratch_buffer {
  std::size_t bytes = 0;
  std::size_t first = 0;
  std::size_t last = 0;
  std::size_t offset = 0;  ///< set by `lay_out`
};

/// Gives each buffer an offset, aligned to 256, such that buffers that are needed at the same step
/// do not overlap. Returns the size of all in bytes.
///
/// Up to 512 buffers: the largest one is placed first, each as low as possible (greedy by size:
/// Pisarchyk and Lee, Efficient Memory Management for Deep Neural Net Inference, 2020). More
/// buffers, in O(n log n): the first one that is needed is placed first, each in the smallest gap
/// that is large enough.
[[nodiscard]] std::size_t lay_out(std::vector<scratch_buffer>& buffers);

}  // namespace sluice::operations
