// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "operations/elementwise/concatenate_call.hpp"

// Between C++17 files that nvcc compiles and the rest: no CUDA type, and nothing of C++20.

namespace sluice {
struct native_stream;
}

namespace sluice::operations {

/// Loads the kernels of concatenations. Returns a `cudaError_t`.
[[nodiscard]] int load_concatenate();

/// Queues a concatenation with at least one row on a stream of the current device. Returns a
/// `cudaError_t`.
[[nodiscard]] int launch_concatenate(const concatenate_call& call,
                                     const concatenate_addresses& addresses, native_stream* stream);

}  // namespace sluice::operations
