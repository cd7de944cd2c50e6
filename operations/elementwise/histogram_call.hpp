// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "operations/elementwise/strided_map.hpp"

#include <cstdint>

// Kernels include this header, so it compiles as C++17.
namespace sluice {
struct native_stream;
}

namespace sluice::operations {

/// Counts of the elements of x in bins. The counts have no gaps.
struct histogram_call {
  map_layout<1> layout{};  ///< of x
  std::int64_t bins = 1;
  double low = 0;
  double high = 1;

  /// The bin of an element; -1 if it is in none.
  [[nodiscard]] SLUICE_HOST_DEVICE std::int64_t bin_of(double x) const noexcept {
    if (!(x >= low && x <= high)) return -1;
    const auto bin =
        static_cast<std::int64_t>((x - low) / (high - low) * static_cast<double>(bins));
    return bin < bins ? bin : bins - 1;
  }
};

/// Loads the kernels. Returns a `cudaError_t`.
[[nodiscard]] int load_histogram();

/// Queues two kernels on a stream of the current device. Returns a `cudaError_t`.
[[nodiscard]] int launch_histogram(const histogram_call& call, const void* x, std::int64_t* counts,
                                   native_stream* stream);

}  // namespace sluice::operations
