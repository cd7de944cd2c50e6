// SPDX-License-Identifier: Apache-2.0
#include "actors/dnn/cuda/bias_activation.hpp"

#include <algorithm>

namespace sluice::cuda {
namespace {

template <class Index>
__global__ void bias_activation_kernel(float* y, const float* bias, Index count, Index plane,
                                       Index channels, bool relu) {
  const Index step = static_cast<Index>(gridDim.x) * blockDim.x;
  for (Index i = static_cast<Index>(blockIdx.x) * blockDim.x + threadIdx.x; i < count; i += step) {
    float value = y[i];
    if (bias != nullptr) value += bias[i / plane % channels];
    if (relu && value < 0.0f) value = 0.0f;
    y[i] = value;
  }
}

template <class Index>
void launch(const bias_activation& o, unsigned blocks, unsigned threads, void* stream) {
  bias_activation_kernel<Index><<<blocks, threads, 0, static_cast<cudaStream_t>(stream)>>>(
      o.y, o.bias, static_cast<Index>(o.count), static_cast<Index>(o.plane),
      static_cast<Index>(o.channels), o.relu);
}

}  // namespace

int launch_bias_activation(const bias_activation& operation, void* stream) noexcept {
  if (operation.count == 0) return cudaSuccess;
  constexpr unsigned threads = 256;
  const auto blocks =
      static_cast<unsigned>(std::min<std::size_t>((operation.count + threads - 1) / threads, 8192));
  // 32-bit divisions are several times as fast; below this bound the last step does not overflow.
  if (operation.count <= std::size_t{1} << 31) {
    launch<unsigned>(operation, blocks, threads, stream);
  } else {
    launch<unsigned long long>(operation, blocks, threads, stream);
  }
  return cudaGetLastError();
}

}  // namespace sluice::cuda
