// SPDX-License-Identifier: Apache-2.0
#include "operations/elementwise/launch_map.hpp"
#include "operations/elementwise/reduce_call.hpp"

#include <cuda_runtime.h>

namespace sluice::operations {
namespace {

constexpr unsigned threads_per_block = 256;
// Beyond this the loops in the kernels take the rest.
constexpr std::int64_t max_blocks = 16384;

/// Combines the values of groups of `lanes` neighbouring threads. The first thread of a group gets
/// the result.
template <class Reducer>
__device__ typename Reducer::value combine_lanes(typename Reducer::value total, unsigned lanes) {
  // Memory for any type: a variable of a template parameter's type would need its constructor.
  alignas(16) __shared__ unsigned char memory[threads_per_block * sizeof(total)];
  auto* const values = reinterpret_cast<typename Reducer::value*>(memory);
  values[threadIdx.x] = total;
  __syncthreads();
  for (unsigned half = lanes / 2; half > 0; half /= 2) {
    if (threadIdx.x % lanes < half) {
      values[threadIdx.x] = Reducer::combine(values[threadIdx.x], values[threadIdx.x + half]);
    }
    __syncthreads();
  }
  const auto combined = values[threadIdx.x];
  __syncthreads();
  return combined;
}

/// The share of each part of the elements of a result.
[[nodiscard]] __device__ std::int64_t part_length(const reduce_call& call) {
  return (call.reduced.count + call.parts - 1) / call.parts;
}

// Unit u is part u / results of result u % results.
template <class Reducer>
__global__ void __launch_bounds__(threads_per_block)
    reduce_kernel(Reducer reducer, const __grid_constant__ reduce_call call, const void* x, void* y,
                  void* workspace) {
  using value = typename Reducer::value;
  const unsigned lanes = static_cast<unsigned>(call.lanes);
  const unsigned lane = threadIdx.x % lanes;
  const std::int64_t units = call.results.count * call.parts;
  const std::int64_t units_of_block = threads_per_block / lanes;
  const std::int64_t length = part_length(call);
  for (std::int64_t first = blockIdx.x * units_of_block; first < units;
       first += gridDim.x * units_of_block) {
    const std::int64_t unit = first + threadIdx.x / lanes;
    value total = Reducer::identity();
    map_position<2> position{};
    if (unit < units) {
      const auto split = divide(unit, call.results.count);
      position = position_of(call.results, split.remainder);
      const std::int64_t begin = split.value * length;
      const std::int64_t end =
          begin + length < call.reduced.count ? begin + length : call.reduced.count;
      for (std::int64_t i = begin + lane; i < end; i += lanes) {
        total = Reducer::combine(
            total, load<value>(call.results.types[1], x,
                               position.offsets[1] + position_of(call.reduced, i).offsets[0]));
      }
    }
    const value combined = combine_lanes<Reducer>(total, lanes);
    if (unit >= units || lane != 0) continue;
    if (call.parts == 1) {
      store<overflow::wraps>(call.results.types[0], y, position.offsets[0],
                             reducer.finish(combined));
    } else {
      static_cast<value*>(workspace)[unit] = combined;
    }
  }
}

// One block for each result.
template <class Reducer>
__global__ void __launch_bounds__(threads_per_block)
    combine_kernel(Reducer reducer, const __grid_constant__ reduce_call call,
                   const typename Reducer::value* parts, void* y) {
  using value = typename Reducer::value;
  for (std::int64_t result = blockIdx.x; result < call.results.count; result += gridDim.x) {
    value total = Reducer::identity();
    for (std::int64_t i = threadIdx.x; i < call.parts; i += threads_per_block) {
      total = Reducer::combine(total, parts[i * call.results.count + result]);
    }
    const value combined = combine_lanes<Reducer>(total, threads_per_block);
    if (threadIdx.x == 0) {
      store<overflow::wraps>(call.results.types[0], y, position_of(call.results, result).offsets[0],
                             reducer.finish(combined));
    }
  }
}

[[nodiscard]] unsigned blocks_for(std::int64_t count) {
  return static_cast<unsigned>(count < max_blocks ? count : max_blocks);
}

struct reduce_launcher {
  const reduce_call& call;
  const void* x;
  void* y;
  void* workspace;
  cudaStream_t stream;

  template <class Reducer>
  int operator()(const Reducer& reducer) const {
    const std::int64_t units_of_block = threads_per_block / call.lanes;
    const std::int64_t units = call.results.count * call.parts;
    reduce_kernel<<<blocks_for((units + units_of_block - 1) / units_of_block), threads_per_block, 0,
                    stream>>>(reducer, call, x, y, workspace);
    const cudaError_t result = cudaGetLastError();
    if (result != cudaSuccess || call.parts == 1) return result;
    combine_kernel<<<blocks_for(call.results.count), threads_per_block, 0, stream>>>(
        reducer, call, static_cast<const typename Reducer::value*>(workspace), y);
    return cudaGetLastError();
  }
};

struct reduce_loader {
  template <class Reducer>
  int operator()(const Reducer&) const {
    cudaFuncAttributes attributes;
    const cudaError_t result = cudaFuncGetAttributes(&attributes, reduce_kernel<Reducer>);
    return result != cudaSuccess ? result
                                 : cudaFuncGetAttributes(&attributes, combine_kernel<Reducer>);
  }
};

}  // namespace

int load_reduce() {
  for (int type = 0; type <= static_cast<int>(storage::c128); ++type) {
    for (const auto kind : {reduction_kind::sum, reduction_kind::mean, reduction_kind::max}) {
      reduce_call call{};
      call.results.types[1] = static_cast<storage>(type);
      call.kind = kind;
      const int status = visit(call, reduce_loader{});
      if (status != 0) return status;
    }
  }
  return cudaSuccess;
}

int launch_reduce(const reduce_call& call, const void* x, void* y, void* workspace,
                  native_stream* stream) {
  return visit(call,
               reduce_launcher{call, x, y, workspace, reinterpret_cast<cudaStream_t>(stream)});
}

}  // namespace sluice::operations
