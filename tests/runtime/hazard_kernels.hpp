#pragma once

#include <cstddef>
#include <cstdint>

#if defined(__CUDACC__)
#define SLUICE_HAZARD_BOTH __host__ __device__
#else
#define SLUICE_HAZARD_BOTH
#endif

namespace sluice::test {

/// One launch of the integer kernel that the hazard proof is made of:
///     out[i] = mixed(a[i % a_count], b[i % b_count], constant)
/// where a missing input (nullptr) stands for the index. An input may be `out` itself.
struct mix_arguments {
  std::uint32_t* out = nullptr;
  std::size_t count = 0;
  const std::uint32_t* a = nullptr;
  std::size_t a_count = 0;
  const std::uint32_t* b = nullptr;
  std::size_t b_count = 0;
  std::uint32_t constant = 0;
  /// On a GPU: processor cycles that the kernel lets pass before it touches memory.
  std::uint32_t delay = 0;
};

/// The arithmetic of the kernel: exact and the same everywhere.
SLUICE_HAZARD_BOTH inline std::uint32_t mixed(std::uint32_t a, std::uint32_t b, std::uint32_t c) {
  std::uint32_t x = a * 0x9e3779b1u + ((b << 7) | (b >> 25)) + c;
  x ^= x >> 15;
  return x * 0x85ebca77u;
}

/// The kernel on the calling thread.
inline void mix_on_host(const mix_arguments& m) {
  for (std::size_t i = 0; i < m.count; ++i) {
    const auto index = static_cast<std::uint32_t>(i);
    const std::uint32_t a = m.a != nullptr ? m.a[i % m.a_count] : index;
    const std::uint32_t b = m.b != nullptr ? m.b[i % m.b_count] : index;
    m.out[i] = mixed(a, b, m.constant);
  }
}

/// The kernel on a GPU: enqueues it on `stream` (a `cudaStream_t`) of the current device. Returns
/// the launch's `cudaError_t`. In builds with CUDA only.
[[nodiscard]] int launch_mix(const mix_arguments& arguments, void* stream) noexcept;

}  // namespace sluice::test
