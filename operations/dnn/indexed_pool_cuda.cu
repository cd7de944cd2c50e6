// SPDX-License-Identifier: Apache-2.0
#include "operations/dnn/indexed_pool_call.hpp"

#include <cuda_runtime.h>

#include <cstdint>
#include <type_traits>

namespace sluice::operations {
namespace {

constexpr unsigned threads_per_block = 256;
// Beyond this the loop in the kernel takes the rest.
constexpr std::int64_t max_blocks = 16384;

template <class Body>
__global__ void __launch_bounds__(threads_per_block)
    indexed_pool_kernel(const Body body, const __grid_constant__ indexed_pool_call call) {
  const std::int64_t stride = static_cast<std::int64_t>(gridDim.x) * threads_per_block;
  for (std::int64_t window =
           static_cast<std::int64_t>(blockIdx.x) * threads_per_block + threadIdx.x;
       window < call.count; window += stride) {
    body(call, indexed_window::make(call, window));
  }
}

}  // namespace

int load_indexed_pool() {
  cudaFuncAttributes attributes;
  cudaError_t status = cudaSuccess;
  for (const auto type :
       {storage::f16, storage::bf16, storage::f32, storage::f64, storage::i8, storage::u8}) {
    indexed_pool_call call;
    call.type = type;
    visit(call, {}, [&](const auto& body) {
      using body_type = std::decay_t<decltype(body)>;
      if (status == cudaSuccess) {
        status = cudaFuncGetAttributes(&attributes, indexed_pool_kernel<body_type>);
      }
    });
  }
  return status;
}

int launch_indexed_pool(const indexed_pool_call& call, const indexed_pool_addresses& addresses,
                        native_stream* stream) {
  visit(call, addresses, [&](const auto& body) {
    const std::int64_t blocks = (call.count + threads_per_block - 1) / threads_per_block;
    const auto grid = static_cast<unsigned>(blocks < max_blocks ? blocks : max_blocks);
    indexed_pool_kernel<<<grid, threads_per_block, 0, reinterpret_cast<cudaStream_t>(stream)>>>(
        body, call);
  });
  return cudaGetLastError();
}

}  // namespace sluice::operations
