// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "operations/elementwise/arithmetic.hpp"

#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_runtime.h>

// Elements of kernels that read and write 16 bytes at a time.
namespace sluice::operations {
namespace {

/// Elements that are read or written at once.
template <class Element, int Size>
struct alignas(Size * sizeof(Element)) element_vector {
  Element elements[Size];
};

[[nodiscard]] __device__ inline float to_f32(float x) {
  return x;
}
[[nodiscard]] __device__ inline float to_f32(__half x) {
  return __half2float(x);
}
[[nodiscard]] __device__ inline float to_f32(__nv_bfloat16 x) {
  return __bfloat162float(x);
}
__device__ inline void put_f32(float& target, float value) {
  target = value;
}
__device__ inline void put_f32(__half& target, float value) {
  target = __float2half_rn(value);
}
__device__ inline void put_f32(__nv_bfloat16& target, float value) {
  target = __float2bfloat16_rn(value);
}

/// The larger and the smaller number in f32, as `larger` and `smaller` order them.
///@{
[[nodiscard]] __device__ inline float larger_f32(float a, float b) {
#if __CUDA_ARCH__ >= 800
  float result;
  asm("max.NaN.f32 %0, %1, %2;" : "=f"(result) : "f"(a), "f"(b));
  return result;
#else
  return larger(a, b);
#endif
}
[[nodiscard]] __device__ inline float smaller_f32(float a, float b) {
#if __CUDA_ARCH__ >= 800
  float result;
  asm("min.NaN.f32 %0, %1, %2;" : "=f"(result) : "f"(a), "f"(b));
  return result;
#else
  return smaller(a, b);
#endif
}
///@}

}  // namespace
}  // namespace sluice::operations
