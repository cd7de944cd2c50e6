// SPDX-License-Identifier: Apache-2.0
#include <cstddef>
#include <stdexcept>

namespace sluice {
struct native_stream;
}

namespace {
__global__ void fill(float* x, std::size_t n, float value) {
  const std::size_t i = static_cast<std::size_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  if (i < n) x[i] = value;
}
}  // namespace

void launch_fill(float* x, std::size_t n, float value, sluice::native_stream* stream) {
  const auto blocks = static_cast<unsigned>((n + 255) / 256);
  fill<<<blocks, 256, 0, reinterpret_cast<cudaStream_t>(stream)>>>(x, n, value);
  if (const auto status = cudaGetLastError()) throw std::runtime_error(cudaGetErrorString(status));
}
