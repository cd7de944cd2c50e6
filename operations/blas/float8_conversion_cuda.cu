// SPDX-License-Identifier: Apache-2.0
#include "operations/blas/float8_conversion.hpp"
#include "operations/elementwise/strided_map.hpp"

#include <cuda_runtime.h>

#include <cstdint>

namespace sluice::operations {
namespace {

constexpr unsigned threads_per_block = 256;
// Beyond this the loop in the kernel takes the rest.
constexpr std::int64_t max_blocks = 16384;
constexpr int elements_at_once = 8;

struct alignas(elements_at_once) source_vector {
  std::uint8_t bytes[elements_at_once];
};
struct alignas(2 * elements_at_once) copied_vector {
  std::uint16_t bits[elements_at_once];
};

/// The bits of an element of 8 bits as one of 16. Exact.
[[nodiscard]] __device__ std::uint16_t converted(storage from, storage to, std::uint8_t bits) {
  float value;
  if (from == storage::e5m2) {
    e5m2 x;
    x.bits = bits;
    value = static_cast<float>(x);
  } else {
    e4m3 x;
    x.bits = bits;
    value = static_cast<float>(x);
  }
  return to == storage::bf16 ? bf16(value).bits : f16_of(value).bits;
}

/// Copies eight neighbours of a line. Those beyond its end are 0.
__device__ void convert(const converted_factor& factor, storage to, std::int64_t vector) {
  const auto line = divide(vector, factor.copy_leading / elements_at_once);
  const auto matrix = divide(line.value, factor.lines);
  const auto position = line.remainder * elements_at_once;
  const auto* const source = static_cast<const std::uint8_t*>(factor.elements) +
                             matrix.value * factor.distance + matrix.remainder * factor.leading +
                             position;
  source_vector elements{};
  if (position + elements_at_once <= factor.length &&
      reinterpret_cast<std::uintptr_t>(source) % elements_at_once == 0) {
    elements = *reinterpret_cast<const source_vector*>(source);
  } else {
#pragma unroll
    for (int i = 0; i < elements_at_once; ++i) {
      if (position + i < factor.length) elements.bytes[i] = source[i];
    }
  }
  copied_vector copied;
#pragma unroll
  for (int i = 0; i < elements_at_once; ++i) {
    copied.bits[i] = converted(factor.type, to, elements.bytes[i]);
  }
  static_cast<copied_vector*>(factor.copy)[vector] = copied;
}

__global__ void __launch_bounds__(threads_per_block)
    float8_conversion_kernel(const __grid_constant__ float8_conversion conversion) {
  const auto& first = conversion.factors[0];
  const auto& second = conversion.factors[1];
  const std::int64_t first_vectors = first.matrices * first.vectors();
  const std::int64_t vectors = first_vectors + second.matrices * second.vectors();
  const std::int64_t stride = static_cast<std::int64_t>(gridDim.x) * threads_per_block;
  const std::int64_t thread =
      static_cast<std::int64_t>(blockIdx.x) * threads_per_block + threadIdx.x;
  if (thread == 0) {
    float product = conversion.alpha;
    for (const float* const scale : conversion.scales) {
      if (scale != nullptr) product *= *scale;
    }
    conversion.numbers[0] = product;
    conversion.numbers[1] = conversion.beta;
  }
  for (std::int64_t i = thread; i < vectors; i += stride) {
    if (i < first_vectors) {
      convert(first, conversion.type, i);
    } else {
      convert(second, conversion.type, i - first_vectors);
    }
  }
}

}  // namespace

int load_float8_conversion() {
  cudaFuncAttributes attributes;
  return cudaFuncGetAttributes(&attributes, float8_conversion_kernel);
}

int launch_float8_conversion(const float8_conversion& conversion, native_stream* stream) {
  std::int64_t vectors = 0;
  for (const auto& factor : conversion.factors) vectors += factor.matrices * factor.vectors();
  const auto blocks = (vectors + threads_per_block - 1) / threads_per_block;
  float8_conversion_kernel<<<static_cast<unsigned>(blocks < max_blocks ? blocks : max_blocks),
                             threads_per_block, 0, reinterpret_cast<cudaStream_t>(stream)>>>(
      conversion);
  return cudaGetLastError();
}

}  // namespace sluice::operations
