// SPDX-License-Identifier: Apache-2.0
#include <cstddef>
#include <stdexcept>

namespace {
__global__ void saxpy(std::size_t n, float a, const float* x, float* y) {
  const std::size_t i = static_cast<std::size_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  if (i < n) y[i] = a * x[i] + y[i];
}
}  // namespace

void launch_saxpy(std::size_t n, float a, const float* x, float* y, void* stream) {
  const auto blocks = static_cast<unsigned>((n + 255) / 256);
  if (blocks != 0) saxpy<<<blocks, 256, 0, static_cast<cudaStream_t>(stream)>>>(n, a, x, y);
  if (const auto status = cudaGetLastError()) throw std::runtime_error(cudaGetErrorString(status));
}
