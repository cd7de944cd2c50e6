// SPDX-License-Identifier: Apache-2.0
#include "operations/dnn/integer_convolution_call.hpp"

#include <algorithm>

namespace sluice::operations {
namespace {

__global__ void integer_kernel(integer_sums call, integer_addresses addresses) {
  const auto count = call.sums.count();
  const auto step = static_cast<std::int64_t>(gridDim.x) * blockDim.x;
  for (auto i = static_cast<std::int64_t>(blockIdx.x) * blockDim.x + threadIdx.x; i < count;
       i += step) {
    const auto index = index_of(call.sums, i);
    put_element(addresses.y, position_of(call.sums, index),
                sum_of_products(call, addresses, index));
  }
}

}  // namespace

int load_integer_sums() {
  cudaFuncAttributes attributes;
  return cudaFuncGetAttributes(&attributes, integer_kernel);
}

int launch_integer_sums(const integer_sums& call, const integer_addresses& addresses,
                        native_stream* stream) {
  constexpr std::int64_t threads = 256;
  constexpr std::int64_t most = 65535;
  const auto blocks = std::min((call.sums.count() + threads - 1) / threads, most);
  integer_kernel<<<static_cast<unsigned>(blocks), static_cast<unsigned>(threads), 0,
                   reinterpret_cast<cudaStream_t>(stream)>>>(call, addresses);
  return cudaGetLastError();
}

}  // namespace sluice::operations
