// SPDX-License-Identifier: Apache-2.0
#include "operations/fft/scale_kernel.hpp"

#include <cuda_runtime.h>

namespace sluice::operations {

namespace {

constexpr unsigned threads_per_block = 256;

template <class Real>
__global__ void __launch_bounds__(threads_per_block)
    scale_rows(Real* values, std::size_t row, std::size_t batch, std::size_t distance,
               Real factor) {
  const std::size_t stride = static_cast<std::size_t>(gridDim.x) * threads_per_block;
  for (std::size_t b = blockIdx.y; b < batch; b += gridDim.y) {
    for (std::size_t i = static_cast<std::size_t>(blockIdx.x) * threads_per_block + threadIdx.x;
         i < row; i += stride) {
      values[b * distance + i] *= factor;
    }
  }
}

}  // namespace

int load_scale_kernels() {
  cudaFuncAttributes attributes;
  const cudaError_t result = cudaFuncGetAttributes(&attributes, scale_rows<float>);
  return result != cudaSuccess ? result : cudaFuncGetAttributes(&attributes, scale_rows<double>);
}

template <class Real>
int launch_scale(Real* values, std::size_t row, std::size_t batch, std::size_t distance,
                 Real factor, native_stream* stream) {
  if (row == distance) {
    row *= batch;
    batch = 1;
  }
  const std::size_t block_count = (row + threads_per_block - 1) / threads_per_block;
  const dim3 blocks(static_cast<unsigned>(block_count < 8192 ? block_count : 8192),
                    static_cast<unsigned>(batch < 32768 ? batch : 32768));
  scale_rows<<<blocks, threads_per_block, 0, reinterpret_cast<cudaStream_t>(stream)>>>(
      values, row, batch, distance, factor);
  return cudaGetLastError();
}

template int launch_scale(float*, std::size_t, std::size_t, std::size_t, float, native_stream*);
template int launch_scale(double*, std::size_t, std::size_t, std::size_t, double, native_stream*);

}  // namespace sluice::operations
