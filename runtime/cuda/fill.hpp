// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>

namespace sluice::cuda {

/// Loads the kernels into the context of the current device. Otherwise the first launch would load
/// them, which may wait for the whole device. Returns a `cudaError_t`.
[[nodiscard]] int load_fill() noexcept;

/// Launches a kernel on `stream`, a `cudaStream_t`, that writes the pattern `count` times.
/// `pattern_bytes` is 2, 4, 8 or 16. Returns the `cudaError_t` of the launch.
[[nodiscard]] int launch_fill(void* destination, const void* pattern, std::size_t pattern_bytes,
                              std::size_t count, void* stream) noexcept;

}  // namespace sluice::cuda
