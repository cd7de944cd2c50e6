// SPDX-License-Identifier: Apache-2.0
#include "operations/dnn/cuda/bias_activation.hpp"

#include <algorithm>

namespace sluice::operations {
namespace {

template <class Index>
struct arguments {
  float* y;
  const float* bias;
  Index count;
  Index image;
  Index gap;  // between the end of an image and the next one
  Index channels;
  Index channel_stride;
  bool overwrites;
  bool relu;
};

template <class Index>
__global__ void bias_activation_kernel(arguments<Index> a) {
  const Index step = static_cast<Index>(gridDim.x) * blockDim.x;
  for (Index i = static_cast<Index>(blockIdx.x) * blockDim.x + threadIdx.x; i < a.count;
       i += step) {
    const Index offset = a.gap == 0 ? i : i + i / a.image * a.gap;
    float value = a.overwrites ? 0.0f : a.y[offset];
    if (a.bias != nullptr) value += a.bias[i / a.channel_stride % a.channels];
    if (a.relu && value < 0.0f) value = 0.0f;
    a.y[offset] = value;
  }
}

template <class Index>
void launch(const bias_activation& o, unsigned blocks, unsigned threads, cudaStream_t stream) {
  const auto index = [](std::size_t value) {
    return static_cast<Index>(value);
  };
  const bool one_image = o.count == o.image;
  const arguments<Index> a{o.y,
                           o.bias,
                           index(o.count),
                           index(o.image),
                           index(one_image ? 0 : o.distance - o.image),
                           index(o.channels),
                           index(o.channel_stride),
                           o.overwrites,
                           o.relu};
  bias_activation_kernel<Index><<<blocks, threads, 0, stream>>>(a);
}

}  // namespace

int load_bias_activation_kernels() noexcept {
  cudaFuncAttributes attributes;
  const cudaError_t result = cudaFuncGetAttributes(&attributes, bias_activation_kernel<unsigned>);
  return result != cudaSuccess
             ? result
             : cudaFuncGetAttributes(&attributes, bias_activation_kernel<unsigned long long>);
}

int launch_bias_activation(const bias_activation& operation, native_stream* stream) noexcept {
  if (operation.count == 0) return cudaSuccess;
  constexpr unsigned threads = 256;
  const auto blocks =
      static_cast<unsigned>(std::min<std::size_t>((operation.count + threads - 1) / threads, 8192));
  const auto extent = operation.count / operation.image * operation.distance;
  // 32-bit divisions are several times as fast; below this bound the last step does not overflow.
  constexpr std::size_t small = std::size_t{1} << 31;
  if (operation.count <= small && extent <= small) {
    launch<unsigned>(operation, blocks, threads, reinterpret_cast<cudaStream_t>(stream));
  } else {
    launch<unsigned long long>(operation, blocks, threads, reinterpret_cast<cudaStream_t>(stream));
  }
  return cudaGetLastError();
}

}  // namespace sluice::operations
