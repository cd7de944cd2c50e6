// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "operations/elementwise/sort_call.hpp"

// Between C++17 files that nvcc compiles and the rest: no CUDA type, and nothing of C++20.

namespace sluice {
struct native_stream;
}

namespace sluice::operations {

/// Loads the kernels of sorts. Returns a `cudaError_t`.
[[nodiscard]] int load_sort();

/// Queues a sort with at least one row on a stream of the current device. `workspace` has the size
/// that the call states. Returns a `cudaError_t`.
[[nodiscard]] int launch_sort(const sort_call& call, const sort_addresses& addresses,
                              void* workspace, native_stream* stream);

}  // namespace sluice::operations
