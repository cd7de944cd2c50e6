// SPDX-License-Identifier: Apache-2.0
#include "operations/core/trial_kernels.hpp"

#include <cuda_runtime.h>

#include <algorithm>
#include <cstdint>

namespace sluice::operations {

namespace {

constexpr unsigned noise_threads = 256;

__global__ void __launch_bounds__(noise_threads)
    write_noise(std::uint32_t* words, std::size_t count, noise_bits bits) {
  const std::size_t stride = static_cast<std::size_t>(gridDim.x) * noise_threads;
  for (std::size_t i = static_cast<std::size_t>(blockIdx.x) * noise_threads + threadIdx.x;
       i < count; i += stride) {
    auto word = static_cast<std::uint32_t>(i) * 0x9e3779b9U;
    word = (word ^ (word >> 16U)) * 0x85ebca6bU;
    word = (word ^ (word >> 13U)) * 0xc2b2ae35U;
    words[i] = ((word ^ (word >> 16U)) & bits.random) | bits.set;
  }
}

__global__ void pause(unsigned long long nanoseconds) {
  unsigned long long begin = 0;
  unsigned long long now = 0;
  asm volatile("mov.u64 %0, %globaltimer;" : "=l"(begin));
  do {
    asm volatile("mov.u64 %0, %globaltimer;" : "=l"(now));
  } while (now - begin < nanoseconds);
}

}  // namespace

int launch_noise(void* address, std::size_t bytes, noise_bits bits, native_stream* stream) {
  const auto count = bytes / sizeof(std::uint32_t);
  if (count == 0) return cudaSuccess;
  constexpr std::size_t max_blocks = 4096;
  const auto blocks =
      static_cast<unsigned>(std::min(max_blocks, (count + noise_threads - 1) / noise_threads));
  write_noise<<<blocks, noise_threads, 0, reinterpret_cast<cudaStream_t>(stream)>>>(
      static_cast<std::uint32_t*>(address), count, bits);
  return cudaGetLastError();
}

int launch_pause(unsigned microseconds, native_stream* stream) {
  constexpr unsigned max_microseconds = 10000;
  pause<<<1, 1, 0, reinterpret_cast<cudaStream_t>(stream)>>>(
      1000ULL * std::min(microseconds, max_microseconds));
  return cudaGetLastError();
}

}  // namespace sluice::operations
