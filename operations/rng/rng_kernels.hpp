// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

// Between a C++17 file that nvcc compiles and the rest: no CUDA type, and nothing of C++20.

namespace sluice {
struct native_stream;
}

namespace sluice::operations {

struct bits_distribution;
template <class T>
struct uniform_distribution;
template <class T>
struct normal_distribution;

/// Loads the kernels of all distributions, so that no launch has to. Returns a `cudaError_t`.
[[nodiscard]] int load_random_kernels();

/// Queues elements [first, last] (both included) on `stream`, a stream of the current device.
/// Returns a `cudaError_t`. Instantiated for the five distributions.
template <class Distribution, class T>
[[nodiscard]] int launch_random(const Distribution& distribution, std::uint64_t seed,
                                std::uint64_t first, std::uint64_t last, T* output,
                                native_stream* stream);

}  // namespace sluice::operations
