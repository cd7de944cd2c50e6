// SPDX-License-Identifier: Apache-2.0
#include "operations/rng/philox.hpp"
#include "operations/rng/rng_kernels.hpp"

#include <cuda_runtime.h>
#include <curand_philox4x32_x.h>

namespace sluice::operations {

namespace {

struct curand_rounds {
  SLUICE_HOST_DEVICE static four<std::uint32_t> apply(const four<std::uint32_t>& counter,
                                                      std::uint32_t key_low,
                                                      std::uint32_t key_high) {
#if defined(__CUDA_ARCH__)
    const uint4 words = curand_Philox4x32_10(
        make_uint4(counter.lane[0], counter.lane[1], counter.lane[2], counter.lane[3]),
        make_uint2(key_low, key_high));
    return {{words.x, words.y, words.z, words.w}};
#else
    (void)key_low;
    (void)key_high;
    return counter;  // never called
#endif
  }
};

constexpr unsigned threads_per_block = 256;

template <class Distribution>
__global__ void __launch_bounds__(threads_per_block)
    fill_random(Distribution distribution, std::uint64_t seed, std::uint64_t first,
                std::uint64_t last, typename Distribution::value_type* output) {
  const std::uint64_t groups = last / 4 - first / 4 + 1;
  const std::uint64_t stride = static_cast<std::uint64_t>(gridDim.x) * threads_per_block;
  for (std::uint64_t i = static_cast<std::uint64_t>(blockIdx.x) * threads_per_block + threadIdx.x;
       i < groups; i += stride) {
    store_group<curand_rounds>(distribution, seed, first / 4 + i, first, last, output);
  }
}

template <class Distribution>
cudaError_t load() {
  cudaFuncAttributes attributes;
  return cudaFuncGetAttributes(&attributes, fill_random<Distribution>);
}

}  // namespace

int load_random_kernels() {
  const cudaError_t results[] = {load<bits_distribution>(), load<uniform_distribution<float>>(),
                                 load<uniform_distribution<double>>(),
                                 load<normal_distribution<float>>(),
                                 load<normal_distribution<double>>()};
  for (const cudaError_t result : results) {
    if (result != cudaSuccess) return result;
  }
  return cudaSuccess;
}

template <class Distribution, class T>
int launch_random(const Distribution& distribution, std::uint64_t seed, std::uint64_t first,
                  std::uint64_t last, T* output, native_stream* stream) {
  const std::uint64_t groups = last / 4 - first / 4 + 1;
  const std::uint64_t block_count = (groups + threads_per_block - 1) / threads_per_block;
  // More blocks than any device runs at once gain nothing; the loop takes the rest.
  const auto blocks = static_cast<unsigned>(block_count < 8192 ? block_count : 8192);
  fill_random<<<blocks, threads_per_block, 0, reinterpret_cast<cudaStream_t>(stream)>>>(
      distribution, seed, first, last, output);
  return cudaGetLastError();
}

template int launch_random(const bits_distribution&, std::uint64_t, std::uint64_t, std::uint64_t,
                           std::uint32_t*, native_stream*);
template int launch_random(const uniform_distribution<float>&, std::uint64_t, std::uint64_t,
                           std::uint64_t, float*, native_stream*);
template int launch_random(const uniform_distribution<double>&, std::uint64_t, std::uint64_t,
                           std::uint64_t, double*, native_stream*);
template int launch_random(const normal_distribution<float>&, std::uint64_t, std::uint64_t,
                           std::uint64_t, float*, native_stream*);
template int launch_random(const normal_distribution<double>&, std::uint64_t, std::uint64_t,
                           std::uint64_t, double*, native_stream*);

}  // namespace sluice::operations
