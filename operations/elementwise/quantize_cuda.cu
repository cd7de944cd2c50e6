// SPDX-License-Identifier: Apache-2.0
#include "operations/elementwise/map_kernel.cuh"
#include "operations/elementwise/quantize_call.hpp"

#include <cuda_runtime.h>

#include <cstdint>

namespace sluice::operations {
namespace {

/// The range of the numbers of all threads of a block, for its first thread.
__device__ value_range range_of_block(value_range range) {
  __shared__ value_range ranges[threads_per_block];
  ranges[threadIdx.x] = range;
  for (unsigned step = threads_per_block / 2; step > 0; step /= 2) {
    __syncthreads();
    if (threadIdx.x < step) {
      const value_range other = ranges[threadIdx.x + step];
      ranges[threadIdx.x].add(other.least, other.most);
    }
  }
  return ranges[0];
}

/// Writes the range of the elements that a block has visited.
__global__ void __launch_bounds__(threads_per_block)
    range_kernel(const __grid_constant__ map_layout<1> layout, const void* x, value_range* parts) {
  const std::int64_t stride = static_cast<std::int64_t>(gridDim.x) * threads_per_block;
  value_range range;
  for (std::int64_t i = static_cast<std::int64_t>(blockIdx.x) * threads_per_block + threadIdx.x;
       i < layout.count; i += stride) {
    const float value = load<float>(layout.types[0], x, position_of(layout, i).offsets[0]);
    range.add(value, value);
  }
  range = range_of_block(range);
  if (threadIdx.x == 0) parts[blockIdx.x] = range;
}

/// Writes the scale and the zero point of all parts.
__global__ void __launch_bounds__(threads_per_block)
    scale_kernel(const value_range* parts, int count, float* scale, std::uint8_t* zero_point) {
  value_range range;
  for (int i = static_cast<int>(threadIdx.x); i < count; i += threads_per_block) {
    range.add(parts[i].least, parts[i].most);
  }
  range = range_of_block(range);
  if (threadIdx.x == 0) {
    *scale = range.scale();
    *zero_point = range.zero_point();
  }
}

}  // namespace

template int load_map<quantize_call>();
template int load_map<dequantize_call>();
template int launch_map(const quantize_call&, const map_addresses&, native_stream*);
template int launch_map(const dequantize_call&, const map_addresses&, native_stream*);

int load_value_range() {
  cudaFuncAttributes attributes;
  const auto status = cudaFuncGetAttributes(&attributes, range_kernel);
  return status == cudaSuccess ? cudaFuncGetAttributes(&attributes, scale_kernel) : status;
}

int launch_value_range(const map_layout<1>& layout, const void* x, float* scale,
                       std::uint8_t* zero_point, void* workspace, native_stream* stream) {
  auto* const parts = static_cast<value_range*>(workspace);
  const auto cuda_stream = reinterpret_cast<cudaStream_t>(stream);
  const auto blocks = blocks_for(layout.count);
  constexpr auto most = static_cast<unsigned>(dynamic_quantize_call::max_parts);
  const unsigned count = blocks < most ? blocks : most;
  if (count != 0) range_kernel<<<count, threads_per_block, 0, cuda_stream>>>(layout, x, parts);
  scale_kernel<<<1, threads_per_block, 0, cuda_stream>>>(parts, static_cast<int>(count), scale,
                                                         zero_point);
  return cudaGetLastError();
}

}  // namespace sluice::operations
