// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "operations/elementwise/launch_map.hpp"
#include "operations/elementwise/map_calls.hpp"
#include "operations/elementwise/strided_map.hpp"

#include <cuda_runtime.h>

#include <cstdint>
#include <type_traits>

// One kernel for all maps, and a faster one for f32 without gaps.
namespace sluice::operations {
namespace {

constexpr unsigned threads_per_block = 256;
// Beyond this the loops in the kernels take the rest.
constexpr std::int64_t max_blocks = 16384;

[[nodiscard]] inline unsigned blocks_for(std::int64_t threads) {
  const std::int64_t block_count = (threads + threads_per_block - 1) / threads_per_block;
  return static_cast<unsigned>(block_count < max_blocks ? block_count : max_blocks);
}

// The parameters stay in constant memory, where indexing them costs no copy.
template <class Body, int Operands>
__global__ void __launch_bounds__(threads_per_block)
    map_kernel(const __grid_constant__ Body body,
               const __grid_constant__ map_layout<Operands> layout) {
  const std::int64_t stride = static_cast<std::int64_t>(gridDim.x) * threads_per_block;
  for (std::int64_t i = static_cast<std::int64_t>(blockIdx.x) * threads_per_block + threadIdx.x;
       i < layout.count; i += stride) {
    body(layout, position_of(layout, i));
  }
}

/// y = function(a, b) for f32 without gaps, four elements at a time. All addresses are aligned to
/// 16 bytes.
template <class Function>
__global__ void __launch_bounds__(threads_per_block)
    flat_kernel(Function function, std::int64_t count, const float* a, const float* b, float* y) {
  const std::int64_t first =
      static_cast<std::int64_t>(blockIdx.x) * threads_per_block + threadIdx.x;
  const std::int64_t stride = static_cast<std::int64_t>(gridDim.x) * threads_per_block;
  for (std::int64_t i = first; i < count / 4; i += stride) {
    const float4 u = reinterpret_cast<const float4*>(a)[i];
    const float4 v = reinterpret_cast<const float4*>(b)[i];
    reinterpret_cast<float4*>(y)[i] =
        make_float4(function(u.x, v.x), function(u.y, v.y), function(u.z, v.z), function(u.w, v.w));
  }
  const std::int64_t rest = count / 4 * 4 + first;
  if (rest < count) y[rest] = function(a[rest], b[rest]);
}

template <class Body>
struct is_flat_candidate : std::false_type {};
template <class Functor>
struct is_flat_candidate<map_body<binary_function<Functor, float>, 3>> : std::true_type {};

[[nodiscard]] inline bool aligned(const void* address) {
  return reinterpret_cast<std::uintptr_t>(address) % sizeof(float4) == 0;
}

struct map_launcher {
  cudaStream_t stream;

  template <class Body, int Operands>
  int operator()(const Body& body, const map_layout<Operands>& layout) const {
    if constexpr (is_flat_candidate<Body>::value) {
      const auto& addresses = body.addresses;
      if (layout.is_flat(storage::f32) && aligned(addresses.y) && aligned(addresses.inputs[0]) &&
          aligned(addresses.inputs[1])) {
        flat_kernel<<<blocks_for((layout.count + 3) / 4), threads_per_block, 0, stream>>>(
            body.function, layout.count, static_cast<const float*>(addresses.inputs[0]),
            static_cast<const float*>(addresses.inputs[1]), static_cast<float*>(addresses.y));
        return cudaGetLastError();
      }
    }
    map_kernel<<<blocks_for(layout.count), threads_per_block, 0, stream>>>(body, layout);
    return cudaGetLastError();
  }
};

struct map_loader {
  template <class Body, int Operands>
  int operator()(const Body&, const map_layout<Operands>&) const {
    cudaFuncAttributes attributes;
    if constexpr (is_flat_candidate<Body>::value) {
      const cudaError_t result =
          cudaFuncGetAttributes(&attributes, flat_kernel<typename Body::function_type>);
      if (result != cudaSuccess) return result;
    }
    return cudaFuncGetAttributes(&attributes, map_kernel<Body, Operands>);
  }
};

}  // namespace

template <class Call>
int launch_map(const Call& call, const map_addresses& addresses, native_stream* stream) {
  return visit(call, addresses, map_launcher{reinterpret_cast<cudaStream_t>(stream)});
}

template <class Call>
int load_map() {
  int status = 0;
  for_each_variant<Call>([&](const Call& call) {
    if (status == 0) status = visit(call, map_addresses{}, map_loader{});
  });
  return status;
}

}  // namespace sluice::operations
