// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cuda_runtime.h>

#include <cstdint>

// How the threads of a block share rows of a normalization.
namespace sluice::operations {
namespace {

constexpr unsigned least_threads = 256;
constexpr unsigned most_threads = 1024;
constexpr int warp_size = 32;
// Beyond this the loops in the kernels take the rest.
constexpr std::int64_t max_blocks = 16384;
struct add_numbers {
  template <class T>
  [[nodiscard]] __device__ T operator()(T a, T b) const {
    return a + b;
  }
};
struct larger_number {
  template <class T>
  [[nodiscard]] __device__ T operator()(T a, T b) const {
    return max(a, b);  // the number, if one is NaN
  }
};

/// Combines the values of groups of `lanes` neighbouring threads, a power of two. All threads of
/// the block call it, and each gets the result of its group.
template <class T, class Combine>
[[nodiscard]] __device__ T combined(T value, int lanes, const Combine& combine) {
  __shared__ T of_warps[most_threads / warp_size];
  for (int distance = (lanes < warp_size ? lanes : warp_size) / 2; distance > 0; distance /= 2) {
    value = combine(value, __shfl_xor_sync(~0U, value, distance));
  }
  if (lanes <= warp_size) return value;
  __syncthreads();
  if (threadIdx.x % warp_size == 0) of_warps[threadIdx.x / warp_size] = value;
  __syncthreads();
  const int warps = lanes / warp_size;
  const T* const group = of_warps + static_cast<int>(threadIdx.x) / lanes * warps;
  value = group[0];
  for (int i = 1; i < warps; ++i) value = combine(value, group[i]);
  return value;
}

[[nodiscard]] __device__ inline float reciprocal_root(float x) {
  return 1.0F / sqrtf(x);
}
[[nodiscard]] __device__ inline double reciprocal_root(double x) {
  return 1.0 / sqrt(x);
}

}  // namespace
}  // namespace sluice::operations
