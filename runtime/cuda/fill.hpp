// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>

namespace sluice::cuda {

/// Loads the kernels into the current device's context, so that no first launch has to, which may
/// wait for the whole device. Returns the runtime's `cudaError_t`.
[[nodiscard]] int load_fill() noexcept;

/// Launches a kernel on `stream` (a `cudaStream_t`) that writes `count` times the pattern.
/// `pattern_bytes` is 2, 4, 8 or 16. Returns the launch's `cudaError_t`.
[[nodiscard]] int launch_fill(void* destination, const void* pattern, std::size_t pattern_bytes,
                              std::size_t count, void* stream) noexcept;

}  // namespace sluice::cuda
