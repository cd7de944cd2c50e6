// SPDX-License-Identifier: Apache-2.0
#include "operations/dnn/rotary_call.hpp"
#include "operations/elementwise/vectors.cuh"

#include <cuda_runtime.h>

#include <cmath>
#include <cstdint>
#include <initializer_list>
#include <type_traits>

namespace sluice::operations {
namespace {

constexpr int threads_per_block = 256;
// Beyond this the loop in the kernel takes the rest.
constexpr std::int64_t max_blocks = 1 << 20;

/// The elements in a vector of 16 bytes.
template <class Element>
inline constexpr int vector_size = 16 / sizeof(Element);

/// `Size` neighbouring elements as numbers.
template <class Element, int Size>
struct rotary_numbers {
  using number = std::conditional_t<std::is_same_v<Element, double>, double, float>;
  number values[Size];

  __device__ void read(const Element* source) {
    const auto vector = *reinterpret_cast<const element_vector<Element, Size>*>(source);
#pragma unroll
    for (int k = 0; k < Size; ++k) {
      if constexpr (std::is_same_v<Element, double>) {
        values[k] = vector.elements[k];
      } else {
        values[k] = to_f32(vector.elements[k]);
      }
    }
  }
  __device__ void write(Element* target) const {
    element_vector<Element, Size> vector;
#pragma unroll
    for (int k = 0; k < Size; ++k) {
      if constexpr (std::is_same_v<Element, double>) {
        vector.elements[k] = values[k];
      } else {
        put_f32(vector.elements[k], values[k]);
      }
    }
    *reinterpret_cast<element_vector<Element, Size>*>(target) = vector;
  }
};

/// Each thread rotates `Size` pairs or copies `Size` elements. If these are more than one, they are
/// whole vectors of rows without gaps.
template <class Element, int Size>
__global__ void __launch_bounds__(threads_per_block)
    rotary_kernel(const __grid_constant__ rotary_call call,
                  const __grid_constant__ rotary_addresses addresses) {
  using numbers = rotary_numbers<Element, Size>;
  const std::int64_t pair_units = call.pairs / Size;
  const std::int64_t units_of_row = pair_units + call.copied / Size;
  const std::int64_t units = call.rows.count * units_of_row;
  const auto stride_of = [&](int operand) {
    return Size > 1 ? 1 : call.strides[operand];
  };
  for (std::int64_t unit = static_cast<std::int64_t>(blockIdx.x) * threads_per_block + threadIdx.x;
       unit < units; unit += static_cast<std::int64_t>(gridDim.x) * threads_per_block) {
    const auto split = divide(unit, units_of_row);
    const auto row = position_of(call.rows, split.value);
    auto* const y = static_cast<Element*>(addresses.y) + row.offsets[0];
    const auto* const x = static_cast<const Element*>(addresses.x) + row.offsets[1];
    const std::int64_t pair = split.remainder * Size;
    if (pair >= call.pairs) {
      const std::int64_t i = pair + call.pairs;
      numbers copied;
      copied.read(x + i * stride_of(1));
      copied.write(y + i * stride_of(0));
      continue;
    }
    // The elements of the pairs: two vectors, side by side if the pairs are interleaved.
    const std::int64_t low = call.interleaved ? 2 * pair : pair;
    const std::int64_t high = call.interleaved ? low + Size : pair + call.pairs;
    numbers elements[2];
    elements[0].read(x + low * stride_of(1));
    elements[1].read(x + high * stride_of(1));
    const auto angles = angles_of(call, addresses.positions, row);
    numbers cos;
    numbers sin;
    if (angles.exist) {
      cos.read(static_cast<const Element*>(addresses.cos) + angles.cos + pair * stride_of(2));
      sin.read(static_cast<const Element*>(addresses.sin) + angles.sin + pair * stride_of(3));
    } else {
#pragma unroll
      for (int k = 0; k < Size; ++k) cos.values[k] = sin.values[k] = NAN;
    }
    numbers results[2];
    const auto rotate = [&](int k, auto& first, auto& second, auto a, auto b) {
      first = a * cos.values[k] - b * sin.values[k];
      second = a * sin.values[k] + b * cos.values[k];
    };
    if (call.interleaved) {
#pragma unroll
      for (int k = 0; k < Size; ++k) {
        const int i = 2 * k;
        rotate(k, results[i / Size].values[i % Size],
               results[(i + 1) / Size].values[(i + 1) % Size], elements[i / Size].values[i % Size],
               elements[(i + 1) / Size].values[(i + 1) % Size]);
      }
    } else {
#pragma unroll
      for (int k = 0; k < Size; ++k) {
        rotate(k, results[0].values[k], results[1].values[k], elements[0].values[k],
               elements[1].values[k]);
      }
    }
    results[0].write(y + low * stride_of(0));
    results[1].write(y + high * stride_of(0));
  }
}

/// Whether all rows are whole vectors of 16 bytes.
[[nodiscard]] bool has_vectors(const rotary_call& call, const rotary_addresses& addresses,
                               std::int64_t size) {
  if (call.pairs % size != 0 || call.copied % size != 0) return false;
  const void* const memory[] = {addresses.y, addresses.x, addresses.cos, addresses.sin};
  for (int k = 0; k < 4; ++k) {
    if (call.strides[k] != 1 || reinterpret_cast<std::uintptr_t>(memory[k]) % 16 != 0) return false;
    if (k >= 2 && call.has_positions) {
      if (call.cache_strides[k - 2] % size != 0) return false;
      continue;
    }
    for (int d = 0; d < call.rows.rank; ++d) {
      if (call.rows.shape[d] > 1 && call.rows.strides[k][d] % size != 0) return false;
    }
  }
  return true;
}

/// Calls `run` with an element of a real type.
template <class Run>
void with_element(storage type, const Run& run) {
  if (type == storage::f16) return run(__half{});
  if (type == storage::bf16) return run(__nv_bfloat16{});
  if (type == storage::f32) return run(float{});
  run(double{});
}

}  // namespace

int load_rotary() {
  cudaFuncAttributes attributes;
  cudaError_t status = cudaSuccess;
  const auto load_kernel = [&](auto* kernel) {
    if (status == cudaSuccess) status = cudaFuncGetAttributes(&attributes, kernel);
  };
  for (const auto type : {storage::f16, storage::bf16, storage::f32, storage::f64}) {
    with_element(type, [&](auto element) {
      using element_type = decltype(element);
      load_kernel(rotary_kernel<element_type, vector_size<element_type>>);
      load_kernel(rotary_kernel<element_type, 1>);
    });
  }
  return status;
}

int launch_rotary(const rotary_call& call, const rotary_addresses& addresses,
                  native_stream* stream) {
  with_element(call.rows.types[0], [&](auto element) {
    using element_type = decltype(element);
    constexpr int vector = vector_size<element_type>;
    const bool is_vector = has_vectors(call, addresses, vector);
    const std::int64_t units =
        call.rows.count * (call.pairs + call.copied) / (is_vector ? vector : 1);
    const std::int64_t blocks = (units + threads_per_block - 1) / threads_per_block;
    const auto grid = static_cast<unsigned>(blocks < max_blocks ? blocks : max_blocks);
    const auto kernel =
        is_vector ? rotary_kernel<element_type, vector> : rotary_kernel<element_type, 1>;
    kernel<<<grid, threads_per_block, 0, reinterpret_cast<cudaStream_t>(stream)>>>(call, addresses);
  });
  return cudaGetLastError();
}

}  // namespace sluice::operations
