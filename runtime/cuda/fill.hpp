#pragma once

#include <cstddef>

namespace sluice::cuda {

/// Launches a kernel on `stream` (a `cudaStream_t`) that writes `count` times the pattern.
/// `pattern_bytes` is 2, 4, 8 or 16. Returns the launch's `cudaError_t`.
[[nodiscard]] int launch_fill(void* destination, const void* pattern, std::size_t pattern_bytes,
                              std::size_t count, void* stream) noexcept;

}  // namespace sluice::cuda
