// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>

namespace sluice {
struct native_stream;
}

namespace sluice::operations {

/// Loads the kernels. Returns a `cudaError_t`.
[[nodiscard]] int load_scale_kernels();

/// Queues values[b * distance + i] *= factor for the `row` numbers i of each of `batch` rows, on a
/// stream of the current device. Nothing may be 0. Returns a `cudaError_t`. For float and double.
template <class Real>
[[nodiscard]] int launch_scale(Real* values, std::size_t row, std::size_t batch,
                               std::size_t distance, Real factor, native_stream* stream);

}  // namespace sluice::operations
