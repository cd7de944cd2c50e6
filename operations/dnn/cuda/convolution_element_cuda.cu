// SPDX-License-Identifier: Apache-2.0
#include "operations/dnn/convolution_element.hpp"

#include <algorithm>

namespace sluice::operations {
namespace {

__global__ void element_kernel(element_call call, const void* x, const void* w, void* y) {
  const auto count = call.count();
  const auto step = static_cast<std::int64_t>(gridDim.x) * blockDim.x;
  for (auto i = static_cast<std::int64_t>(blockIdx.x) * blockDim.x + threadIdx.x; i < count;
       i += step) {
    const auto index = index_of(call, i);
    store<overflow::saturates>(call.type, y, position_of(call, index),
                               sum_of_products(call, index, x, w));
  }
}

}  // namespace

int load_elements() noexcept {
  cudaFuncAttributes attributes;
  return cudaFuncGetAttributes(&attributes, element_kernel);
}

int launch_elements(const element_call& call, const void* x, const void* w, void* y,
                    native_stream* stream) noexcept {
  constexpr std::int64_t threads = 256;
  constexpr std::int64_t most = 65535;
  const auto blocks = std::min((call.count() + threads - 1) / threads, most);
  element_kernel<<<static_cast<unsigned>(blocks), static_cast<unsigned>(threads), 0,
                   reinterpret_cast<cudaStream_t>(stream)>>>(call, x, w, y);
  return cudaGetLastError();
}

}  // namespace sluice::operations
