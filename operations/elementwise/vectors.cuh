// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "operations/elementwise/arithmetic.hpp"

#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_runtime.h>

#include <cstdint>
#include <cstring>
#include <type_traits>

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

/// 16 bytes of elements, kept as words: elements of 16 bits need no registers of their own.
template <class Element>
struct alignas(16) word_vector {
  static constexpr int size = 16 / sizeof(Element);
  std::uint32_t words[4];

  [[nodiscard]] __device__ float operator[](int j) const {
    if constexpr (std::is_same_v<Element, float>) {
      return __uint_as_float(words[j]);
    } else if constexpr (std::is_same_v<Element, __nv_bfloat16>) {
      return __uint_as_float(j % 2 == 0 ? words[j / 2] << 16U : words[j / 2] & 0xffff0000U);
    } else {
      float value;
      if (j % 2 == 0) {
        asm("{.reg .b16 low, high; mov.b32 {low, high}, %1; cvt.f32.f16 %0, low;}"
            : "=f"(value)
            : "r"(words[j / 2]));
      } else {
        asm("{.reg .b16 low, high; mov.b32 {low, high}, %1; cvt.f32.f16 %0, high;}"
            : "=f"(value)
            : "r"(words[j / 2]));
      }
      return value;
    }
  }
};
/// The numbers as elements.
template <class Element>
[[nodiscard]] __device__ inline word_vector<Element> rounded_vector(
    const float (&values)[16 / sizeof(Element)]) {
  word_vector<Element> result;
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    if constexpr (std::is_same_v<Element, float>) {
      result.words[i] = __float_as_uint(values[i]);
    } else if constexpr (std::is_same_v<Element, __nv_bfloat16>) {
      const auto pair = __floats2bfloat162_rn(values[2 * i], values[2 * i + 1]);
      memcpy(&result.words[i], &pair, sizeof pair);
    } else {
      const auto pair = __floats2half2_rn(values[2 * i], values[2 * i + 1]);
      memcpy(&result.words[i], &pair, sizeof pair);
    }
  }
  return result;
}

}  // namespace
}  // namespace sluice::operations
