// SPDX-License-Identifier: Apache-2.0
#include "operations/blas/integer_product.hpp"
#include "operations/elementwise/strided_map.hpp"

#include <cuda_runtime.h>

#include <cstdint>

namespace sluice::operations {
namespace {

// A block of threads computes a square of results, and a thread 4 × 4 of them. Words hold four
// terms of a sum.
constexpr int tile = 64;
constexpr int padded_tile = tile + 1;  // so that words of one line lie in different banks
constexpr int words = 8;               // of a row or column at once
constexpr int terms_of_word = 4;
constexpr int results = 4;
constexpr int threads_across = tile / results;
constexpr unsigned threads_per_block = threads_across * threads_across;
// Beyond this the loop in the kernel takes the rest.
constexpr std::int64_t max_blocks = 16384;

/// sum + a · b of four bytes.
template <bool IsFirstUnsigned, bool IsSecondUnsigned>
__device__ std::int32_t add_products(std::uint32_t a, std::uint32_t b, std::int32_t sum) {
  std::int32_t result;
  if constexpr (IsFirstUnsigned) {
    asm("dp4a.u32.s32 %0, %1, %2, %3;" : "=r"(result) : "r"(a), "r"(b), "r"(sum));
  } else if constexpr (IsSecondUnsigned) {
    asm("dp4a.s32.u32 %0, %1, %2, %3;" : "=r"(result) : "r"(a), "r"(b), "r"(sum));
  } else {
    asm("dp4a.s32.s32 %0, %1, %2, %3;" : "=r"(result) : "r"(a), "r"(b), "r"(sum));
  }
  return result;
}

/// Copies the terms from `term` on of `tile` lines from `line` on. Those beyond the factor are 0.
__device__ void load(const integer_factor& factor, std::int64_t matrix, std::int64_t line,
                     std::int64_t lines, std::int64_t term, std::int64_t terms,
                     std::uint8_t (&target)[words][padded_tile][terms_of_word]) {
  constexpr int terms_at_once = words * terms_of_word;
  const auto* const elements =
      static_cast<const std::uint8_t*>(factor.elements) + matrix * factor.distance;
  // Neighbouring threads read neighbouring elements.
  const bool by_terms = factor.term_step == 1;
  for (int i = static_cast<int>(threadIdx.x); i < tile * terms_at_once;
       i += static_cast<int>(threads_per_block)) {
    const int x = by_terms ? i / terms_at_once : i % tile;
    const int t = by_terms ? i % terms_at_once : i / tile;
    const bool is_inside = line + x < lines && term + t < terms;
    target[t / terms_of_word][x][t % terms_of_word] =
        is_inside ? elements[(line + x) * factor.step + (term + t) * factor.term_step] : 0;
  }
}

[[nodiscard]] __device__ std::uint32_t word_of(const std::uint8_t (&bytes)[terms_of_word]) {
  return *reinterpret_cast<const std::uint32_t*>(bytes);
}

template <bool IsFirstUnsigned, bool IsSecondUnsigned>
__global__ void __launch_bounds__(threads_per_block)
    integer_product_kernel(const __grid_constant__ integer_product product) {
  __shared__ alignas(16) std::uint8_t first[words][padded_tile][terms_of_word];
  __shared__ alignas(16) std::uint8_t second[words][padded_tile][terms_of_word];
  const std::int64_t down = (product.m + tile - 1) / tile;
  const std::int64_t across = (product.n + tile - 1) / tile;
  const int thread_row = static_cast<int>(threadIdx.x) % threads_across;
  const int thread_column = static_cast<int>(threadIdx.x) / threads_across;
  for (std::int64_t i = blockIdx.x; i < down * across * product.count; i += gridDim.x) {
    const auto line = divide(i, down);
    const auto matrix = divide(line.value, across);
    const auto row = line.remainder * tile;
    const auto column = matrix.remainder * tile;
    std::int32_t sums[results][results]{};
    for (std::int64_t term = 0; term < product.k; term += words * terms_of_word) {
      __syncthreads();  // all have read the previous terms
      load(product.first, matrix.value, row, product.m, term, product.k, first);
      load(product.second, matrix.value, column, product.n, term, product.k, second);
      __syncthreads();
#pragma unroll
      for (int w = 0; w < words; ++w) {
        std::uint32_t a[results];
        std::uint32_t b[results];
#pragma unroll
        for (int j = 0; j < results; ++j) {
          a[j] = word_of(first[w][thread_row + j * threads_across]);
          b[j] = word_of(second[w][thread_column + j * threads_across]);
        }
#pragma unroll
        for (int x = 0; x < results; ++x) {
#pragma unroll
          for (int y = 0; y < results; ++y) {
            sums[x][y] = add_products<IsFirstUnsigned, IsSecondUnsigned>(a[x], b[y], sums[x][y]);
          }
        }
      }
    }
#pragma unroll
    for (int y = 0; y < results; ++y) {
      const auto j = column + thread_column + y * threads_across;
      if (j >= product.n) continue;
      auto* const c = product.c + matrix.value * product.c_distance + j * product.c_leading;
#pragma unroll
      for (int x = 0; x < results; ++x) {
        const auto r = row + thread_row + x * threads_across;
        if (r >= product.m) continue;
        const auto previous = product.adds ? static_cast<std::uint32_t>(c[r]) : 0U;
        c[r] = static_cast<std::int32_t>(previous + static_cast<std::uint32_t>(sums[x][y]));
      }
    }
  }
}

template <class Run>
int with_kernel(bool is_first_unsigned, bool is_second_unsigned, const Run& run) {
  if (is_first_unsigned) return run(integer_product_kernel<true, false>);
  if (is_second_unsigned) return run(integer_product_kernel<false, true>);
  return run(integer_product_kernel<false, false>);
}

}  // namespace

int load_integer_product() {
  int status = cudaSuccess;
  for (const int unsigned_factor : {0, 1, 2}) {
    if (status != cudaSuccess) break;
    status = with_kernel(unsigned_factor == 1, unsigned_factor == 2, [](auto* kernel) -> int {
      cudaFuncAttributes attributes;
      return cudaFuncGetAttributes(&attributes, kernel);
    });
  }
  return status;
}

int launch_integer_product(const integer_product& product, native_stream* stream) {
  const auto tiles =
      (product.m + tile - 1) / tile * ((product.n + tile - 1) / tile) * product.count;
  const auto blocks = static_cast<unsigned>(tiles < max_blocks ? tiles : max_blocks);
  return with_kernel(
      product.first.is_unsigned, product.second.is_unsigned, [&](auto* kernel) -> int {
        kernel<<<blocks, threads_per_block, 0, reinterpret_cast<cudaStream_t>(stream)>>>(product);
        return cudaGetLastError();
      });
}

}  // namespace sluice::operations
