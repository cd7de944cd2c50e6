// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>

#if defined(__CUDACC__)
#define SLUICE_HAZARD_BOTH __host__ __device__
#else
#define SLUICE_HAZARD_BOTH
#endif

namespace sluice::test {

/// The element type of all blocks in the hazard proof.
///
/// ThreadSanitizer remembers four accesses to each aligned 8 bytes. Shorter accesses occupy one
/// entry for each part: a copy or a fill in units of 4 bytes takes four. They could displace the
/// access that matters.
using hazard_word = std::uint64_t;

/// The arguments of one launch of the proof's integer kernel:
///     out[i] = mixed(a[i % a_count], b[i % b_count], constant)
/// A missing input (nullptr) stands for the index. An input may be `out` itself.
struct mix_arguments {
  hazard_word* out = nullptr;
  std::size_t count = 0;
  const hazard_word* a = nullptr;
  std::size_t a_count = 0;
  const hazard_word* b = nullptr;
  std::size_t b_count = 0;
  hazard_word constant = 0;
  /// On a GPU: the number of processor cycles that the kernel waits before it accesses memory.
  std::uint32_t delay = 0;
};

/// The arithmetic of the kernel. Exact, and the same on all devices.
SLUICE_HAZARD_BOTH inline hazard_word mixed(hazard_word a, hazard_word b, hazard_word c) {
  hazard_word x = a * 0x9e3779b97f4a7c15u + ((b << 7) | (b >> 57)) + c;
  x ^= x >> 31;
  return x * 0xbf58476d1ce4e5b9u;
}

/// Runs the kernel on the calling thread.
inline void mix_on_host(const mix_arguments& m) {
  for (std::size_t i = 0; i < m.count; ++i) {
    const hazard_word a = m.a != nullptr ? m.a[i % m.a_count] : i;
    const hazard_word b = m.b != nullptr ? m.b[i % m.b_count] : i;
    m.out[i] = mixed(a, b, m.constant);
  }
}

/// Enqueues the kernel on `stream` (a `cudaStream_t`) of the current device. Returns the
/// `cudaError_t` of the launch. Only in builds with CUDA.
[[nodiscard]] int launch_mix(const mix_arguments& arguments, void* stream) noexcept;

}  // namespace sluice::test
