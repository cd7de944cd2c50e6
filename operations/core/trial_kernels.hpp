// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>

namespace sluice {
struct native_stream;
}

namespace sluice::operations {

/// The bits of each word of 32 bits that are random, and those that are set.
struct noise_bits {
  std::uint32_t random;
  std::uint32_t set;
};

/// Queues a kernel that writes words of noise on a stream of the current device. Returns a
/// `cudaError_t`.
/// @param address aligned to 4 bytes
/// @param bytes a multiple of 4
[[nodiscard]] int launch_noise(void* address, std::size_t bytes, noise_bits bits,
                               native_stream* stream);

/// Queues a kernel that does nothing for so many microseconds, at most 10,000. Returns a
/// `cudaError_t`.
[[nodiscard]] int launch_pause(unsigned microseconds, native_stream* stream);

}  // namespace sluice::operations
