// SPDX-License-Identifier: Apache-2.0
#include "operations/elementwise/histogram_call.hpp"

#include <cuda_runtime.h>

#include <cstdint>

namespace sluice::operations {
namespace {

constexpr unsigned threads_per_block = 256;
constexpr std::int64_t max_blocks = 2048;
/// The bins that a block counts in its own memory.
constexpr std::int64_t max_own_bins = 8192;
/// A block counts fewer elements than 32 bits hold.
constexpr std::int64_t max_elements_of_block = std::int64_t{1} << 31;

[[nodiscard]] __device__ std::int64_t first_of_thread() {
  return static_cast<std::int64_t>(blockIdx.x) * threads_per_block + threadIdx.x;
}
[[nodiscard]] __device__ std::int64_t threads_of_grid() {
  return static_cast<std::int64_t>(gridDim.x) * threads_per_block;
}

__global__ void __launch_bounds__(threads_per_block)
    zero_kernel(std::int64_t* counts, std::int64_t bins) {
  for (std::int64_t i = first_of_thread(); i < bins; i += threads_of_grid()) counts[i] = 0;
}

__device__ void add_to(std::int64_t* count, unsigned long long number) {
  atomicAdd(reinterpret_cast<unsigned long long*>(count), number);
}

/// Calls `count(bin)` for each element in a bin that the thread visits.
template <class Count>
__device__ void for_each_bin(const histogram_call& call, const void* x, const Count& count) {
  for (std::int64_t i = first_of_thread(); i < call.layout.count; i += threads_of_grid()) {
    const auto position = position_of(call.layout, i).offsets[0];
    const auto bin = call.bin_of(load<double>(call.layout.types[0], x, position));
    if (bin >= 0) count(bin);
  }
}

/// Counts in the memory of the block, and then adds its counts.
__global__ void __launch_bounds__(threads_per_block)
    own_counts_kernel(const __grid_constant__ histogram_call call, const void* x,
                      std::int64_t* counts) {
  extern __shared__ unsigned own[];
  const auto bins = static_cast<unsigned>(call.bins);
  for (unsigned i = threadIdx.x; i < bins; i += threads_per_block) own[i] = 0;
  __syncthreads();
  for_each_bin(call, x, [&](std::int64_t bin) { atomicAdd(&own[bin], 1U); });
  __syncthreads();
  for (unsigned i = threadIdx.x; i < bins; i += threads_per_block) {
    if (own[i] != 0) add_to(&counts[i], own[i]);
  }
}

__global__ void __launch_bounds__(threads_per_block)
    shared_counts_kernel(const __grid_constant__ histogram_call call, const void* x,
                         std::int64_t* counts) {
  for_each_bin(call, x, [&](std::int64_t bin) { add_to(&counts[bin], 1); });
}

[[nodiscard]] unsigned blocks_of(std::int64_t threads) {
  const std::int64_t blocks = (threads + threads_per_block - 1) / threads_per_block;
  return static_cast<unsigned>(blocks < max_blocks ? blocks : max_blocks);
}

}  // namespace

int load_histogram() {
  cudaFuncAttributes attributes;
  auto status = cudaFuncGetAttributes(&attributes, zero_kernel);
  if (status == cudaSuccess) status = cudaFuncGetAttributes(&attributes, own_counts_kernel);
  if (status == cudaSuccess) status = cudaFuncGetAttributes(&attributes, shared_counts_kernel);
  return status;
}

int launch_histogram(const histogram_call& call, const void* x, std::int64_t* counts,
                     native_stream* stream) {
  const auto cuda_stream = reinterpret_cast<cudaStream_t>(stream);
  zero_kernel<<<blocks_of(call.bins), threads_per_block, 0, cuda_stream>>>(counts, call.bins);
  if (call.layout.count == 0) return cudaGetLastError();
  const auto elements = call.layout.count;
  if (call.bins <= max_own_bins) {
    // Few blocks add up their counts, unless these would overflow.
    const auto per_thread = std::int64_t{8};
    const auto least = static_cast<unsigned>(elements / max_elements_of_block + 1);
    auto blocks = blocks_of((elements + per_thread - 1) / per_thread);
    if (blocks < least) blocks = least;
    const auto bytes = static_cast<std::size_t>(call.bins) * sizeof(unsigned);
    own_counts_kernel<<<blocks, threads_per_block, bytes, cuda_stream>>>(call, x, counts);
  } else {
    shared_counts_kernel<<<blocks_of(elements), threads_per_block, 0, cuda_stream>>>(call, x,
                                                                                     counts);
  }
  return cudaGetLastError();
}

}  // namespace sluice::operations
