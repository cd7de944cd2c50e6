// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "operations/elementwise/vectors.cuh"

#include <cuda_runtime.h>

#include <cstdint>

// Fragments of matrices of 16-bit numbers for tensor cores, and the staging of rows in shared
// memory. The layouts are those of mma.m16n8k16 and ldmatrix in the manual of PTX.
#if !defined(__CUDA_ARCH__) || __CUDA_ARCH__ >= 800

namespace sluice::operations {
namespace {

/// Two numbers as a register of a fragment; the first one has the lower bits.
///@{
[[nodiscard]] __device__ inline std::uint32_t packed_pair(__half, float low, float high) {
  const __half2 pair = __floats2half2_rn(low, high);
  return *reinterpret_cast<const std::uint32_t*>(&pair);
}
[[nodiscard]] __device__ inline std::uint32_t packed_pair(__nv_bfloat16, float low, float high) {
  const __nv_bfloat162 pair = __floats2bfloat162_rn(low, high);
  return *reinterpret_cast<const std::uint32_t*>(&pair);
}
///@}

/// c += a · b of 16 × 16 and 16 × 8 numbers.
///@{
__device__ inline void multiply_add(__half, float (&c)[4], const std::uint32_t (&a)[4],
                                    std::uint32_t b0, std::uint32_t b1) {
  asm("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, "
      "{%0,%1,%2,%3};"
      : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}
__device__ inline void multiply_add(__nv_bfloat16, float (&c)[4], const std::uint32_t (&a)[4],
                                    std::uint32_t b0, std::uint32_t b1) {
  asm("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, "
      "{%8,%9}, {%0,%1,%2,%3};"
      : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}
///@}

/// Four 8 × 8 matrices, or their transposes. Lane 8 · i + r has the address of row r of matrix i.
///@{
__device__ inline void load_matrices(std::uint32_t (&result)[4], const void* row) {
  const auto address = static_cast<std::uint32_t>(__cvta_generic_to_shared(row));
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];"
               : "=r"(result[0]), "=r"(result[1]), "=r"(result[2]), "=r"(result[3])
               : "r"(address)
               : "memory");
}
__device__ inline void load_transposed(std::uint32_t (&result)[4], const void* row) {
  const auto address = static_cast<std::uint32_t>(__cvta_generic_to_shared(row));
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0,%1,%2,%3}, [%4];"
               : "=r"(result[0]), "=r"(result[1]), "=r"(result[2]), "=r"(result[3])
               : "r"(address)
               : "memory");
}
///@}

/// 2^x. Results below the normal numbers are 0.
[[nodiscard]] __device__ inline float power_of_two(float x) {
  float result;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(result) : "f"(x));
  return result;
}

/// Copies 16 bytes to shared memory in the background, or zeros if they do not exist.
__device__ inline void copy_later(void* target, const void* source, bool exists) {
  const auto address = static_cast<std::uint32_t>(__cvta_generic_to_shared(target));
  const int bytes = exists ? 16 : 0;
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;"
               :
               : "r"(address), "l"(source), "r"(bytes)
               : "memory");
}
__device__ inline void await_copies() {
  asm volatile("cp.async.wait_all;" ::: "memory");
}

/// Rows of a head.
template <class Element>
struct core_rows {
  const Element* first;
  std::int64_t row;      // distance of rows
  std::int64_t element;  // distance of elements
  int count;             // of rows
  int size;              // elements of a row
};

/// Stages `Rows` rows from `begin` on with `Size` elements each, and zeros where there are none. A
/// copy may last until `await_copies`. Staged rows begin in different banks.
template <int Threads, int Rows, int Size, class Element>
__device__ inline void stage(Element* target, const core_rows<Element>& source, int begin,
                             bool has_vectors) {
  constexpr int staged_row = Size + 8;
  const int thread = static_cast<int>(threadIdx.x);
  const int rows = source.count - begin;
  const Element* const first = source.first + begin * source.row;
  if (has_vectors) {
    constexpr int vectors = Size / 8;
    constexpr int count = Rows * vectors;
#pragma unroll
    for (int step = 0; step < (count + Threads - 1) / Threads; ++step) {
      const int i = thread + step * Threads;
      if (count % Threads != 0 && i >= count) break;
      const int r = i / vectors;
      const int e = i % vectors * 8;
      const bool exists = r < rows && e < source.size;
      copy_later(target + r * staged_row + e, exists ? first + r * source.row + e : source.first,
                 exists);
    }
    return;
  }
#pragma unroll 1
  for (int i = thread; i < Rows * Size; i += Threads) {
    const int r = i / Size;
    const int e = i % Size;
    Element value;
    put_f32(value, 0.0f);
    if (r < rows && e < source.size) value = first[r * source.row + e * source.element];
    target[r * staged_row + e] = value;
  }
}

}  // namespace
}  // namespace sluice::operations

#endif
