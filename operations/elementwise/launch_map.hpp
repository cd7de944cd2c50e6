// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "operations/elementwise/strided_map.hpp"

// Between C++17 files that nvcc compiles and the rest: no CUDA type, and nothing of C++20.

namespace sluice {
struct native_stream;
}

namespace sluice::operations {

struct cumulative_call;
struct grid_call;
struct reduce_call;
struct resize_pass;
struct scatter_addresses;
struct scatter_work;

/// Loads the kernels of a map, so that no launch has to. Returns a `cudaError_t`.
template <class Call>
[[nodiscard]] int load_map();
template <>
[[nodiscard]] int load_map<resize_pass>();
template <>
[[nodiscard]] int load_map<grid_call>();

/// Queues a map with at least one index on a stream of the current device. Returns a `cudaError_t`.
/// Instantiated for all calls.
template <class Call>
[[nodiscard]] int launch_map(const Call& call, const map_addresses& addresses,
                             native_stream* stream);
template <>
[[nodiscard]] int launch_map(const resize_pass& call, const map_addresses& addresses,
                             native_stream* stream);

/// Loads the kernels of reductions. Returns a `cudaError_t`.
[[nodiscard]] int load_reduce();

/// Queues a reduction with at least one result on a stream of the current device. `workspace` has
/// the size that the call states. Returns a `cudaError_t`.
[[nodiscard]] int launch_reduce(const reduce_call& call, const void* x, void* y, void* workspace,
                                native_stream* stream);

/// Queues the second kernel of a reduction with several parts, whose values are in `workspace`.
/// Returns a `cudaError_t`.
[[nodiscard]] int launch_reduced_parts(const reduce_call& call, const void* workspace, void* y,
                                       native_stream* stream);

/// Loads the kernels of cumulative sums and products. Returns a `cudaError_t`.
[[nodiscard]] int load_cumulative();

/// Queues cumulative sums or products of at least one element on a stream of the current device.
/// `workspace` has the size that the call states. Returns a `cudaError_t`.
[[nodiscard]] int launch_cumulative(const cumulative_call& call, const void* x, void* y,
                                    void* workspace, native_stream* stream);

/// Loads the kernels of updates. Returns a `cudaError_t`.
[[nodiscard]] int load_scatter();

/// Queues the copy and the updates of a tensor with elements on a stream of the current device.
/// Returns a `cudaError_t`.
[[nodiscard]] int launch_scatter(scatter_work work, const scatter_addresses& addresses,
                                 native_stream* stream);

}  // namespace sluice::operations
