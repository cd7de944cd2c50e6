// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "operations/dnn/normalize_threads.cuh"
#include "operations/elementwise/vectors.cuh"

#include <cuda_runtime.h>

#include <cstdint>

// Layer normalizations of rows without gaps, with the shortest latency: all operands are read at
// once, before the first of them is needed.
namespace sluice::operations {

/// A layer normalization of rows of whole vectors of 16 bytes. Strides are in vectors.
struct layer_call {
  void* y;
  const void* x;
  const void* scale;  ///< nullptr: none
  const void* bias;   ///< nullptr: none
  std::int64_t y_row;
  std::int64_t x_row;
  std::int32_t rows;
  std::int32_t vectors;  ///< of a row
  float epsilon;
  float reciprocal;  ///< of the number of elements of a row
};

namespace {

/// Reads a vector at this place of the program.
template <class Element>
[[nodiscard]] __device__ inline word_vector<Element> read_now(
    const word_vector<Element>* position) {
  word_vector<Element> result;
  asm volatile("ld.global.v4.b32 {%0, %1, %2, %3}, [%4];"
               : "=r"(result.words[0]), "=r"(result.words[1]), "=r"(result.words[2]),
                 "=r"(result.words[3])
               : "l"(position)
               : "memory");
  return result;
}

/// A part of a row: how many numbers it has, their mean, and the sum of the squares of the
/// differences from it.
struct layer_part {
  float count;
  float mean;
  float squares;

  /// Adds the parts of the other threads of a warp: Chan, Golub and LeVeque, 1983. `IsEven` states
  /// that all threads have as many numbers.
  template <bool IsEven>
  __device__ void merge_in_warp() {
#pragma unroll
    for (int distance = warp_size / 2; distance > 0; distance /= 2) {
      const float other_count = IsEven ? count : __shfl_xor_sync(~0U, count, distance);
      const float difference = __shfl_xor_sync(~0U, mean, distance) - mean;
      squares += __shfl_xor_sync(~0U, squares, distance);
      const float all = count + other_count;
      const float share = IsEven ? 0.5f : all > 0 ? other_count / all : 0;
      mean = fmaf(share, difference, mean);
      squares = fmaf(difference * (count * share), difference, squares);
      count = all;
    }
    // Two threads round differently, but equal elements of a row have equal results.
    mean = __shfl_sync(~0U, mean, 0);
    squares = __shfl_sync(~0U, squares, 0);
  }
};

/// Adds the parts of warps. All threads of the block call it.
template <int Warps>
[[nodiscard]] __device__ inline layer_part merged_in_block(const layer_part& part,
                                                           float reciprocal) {
  __shared__ layer_part parts[Warps];
  if (threadIdx.x % warp_size == 0) parts[threadIdx.x / warp_size] = part;
  __syncthreads();
  layer_part sum = parts[0];
  float differences = 0;
#pragma unroll
  for (int w = 1; w < Warps; ++w) {
    const layer_part other = parts[w];
    const float distance = other.mean - sum.mean;
    differences = fmaf(other.count, distance, differences);
    sum.squares += fmaf(distance * distance, other.count, other.squares);
  }
  const float residual = differences * reciprocal;
  sum.mean += residual;
  sum.squares -= residual * differences;
  if (sum.squares < 0) sum.squares = 0;  // it stays NaN
  return sum;
}

/// `Warps` warps share a row, of which a thread keeps up to `Kept` vectors, and a block has `Rows`
/// rows. `IsWhole` states that all threads have `Kept` vectors.
template <class Element, int Kept, int Warps, int Rows, bool IsWhole>
__global__ void __launch_bounds__(warp_size* Warps* Rows)
    layer_kernel(const __grid_constant__ layer_call call) {
  static_assert(Warps == 1 || Rows == 1, "the warps of a row meet at a barrier of the block");
  constexpr int size = 16 / sizeof(Element);
  constexpr int lanes = warp_size * Warps;
  using vector = word_vector<Element>;
  const int lane = static_cast<int>(threadIdx.x) % lanes;
  const int row = static_cast<int>(blockIdx.x) * Rows + static_cast<int>(threadIdx.x) / lanes;
  const int read_row = Rows == 1 ? row : min(row, call.rows - 1);
  const auto* const x = static_cast<const vector*>(call.x) + read_row * call.x_row;
  const auto* const scales = static_cast<const vector*>(call.scale) + lane;
  const auto* const biases = static_cast<const vector*>(call.bias) + lane;
  const bool has_scale = call.scale != nullptr;
  const bool has_bias = call.bias != nullptr;
  const auto has = [&](int k) {
    return IsWhole || lane + k * lanes < call.vectors;
  };
  vector kept[Kept];
  vector scale[Kept];
  vector bias[Kept];
  // The differences from an element of the row are added, and not the elements: sums of numbers
  // that are far from 0, but not from each other, would lose their digits.
  const float origin = read_now(x)[0];
#pragma unroll
  for (int k = 0; k < Kept; ++k) {
    if (has(k)) kept[k] = read_now(x + lane + k * lanes);
  }
#pragma unroll
  for (int k = 0; k < Kept; ++k) {
    if (has(k) && has_scale) scale[k] = read_now(scales + k * lanes);
    if (has(k) && has_bias) bias[k] = read_now(biases + k * lanes);
  }
  // This branch keeps the reads of parameters before it. The compiler would move them to where they
  // are needed, which is when nothing else hides the latency of memory.
  if (row >= call.rows) return;

  layer_part part{0, 0, 0};
  float sum = 0;
#pragma unroll
  for (int k = 0; k < Kept; ++k) {
    if (!has(k)) continue;
    part.count += size;
#pragma unroll
    for (int j = 0; j < size; ++j) sum += kept[k][j] - origin;
  }
  part.mean = IsWhole ? sum * (1.0f / (Kept * size)) : part.count > 0 ? sum / part.count : 0;
#pragma unroll
  for (int k = 0; k < Kept; ++k) {
    if (!has(k)) continue;
#pragma unroll
    for (int j = 0; j < size; ++j) {
      const float difference = (kept[k][j] - origin) - part.mean;
      part.squares = fmaf(difference, difference, part.squares);
    }
  }
  part.merge_in_warp<IsWhole>();
  if constexpr (Warps > 1) part = merged_in_block<Warps>(part, call.reciprocal);

  const float factor = rsqrtf(fmaf(part.squares, call.reciprocal, call.epsilon));
  auto* const y = static_cast<vector*>(call.y) + row * call.y_row + lane;
#pragma unroll
  for (int k = 0; k < Kept; ++k) {
    if (!has(k)) continue;
    float values[size];
#pragma unroll
    for (int j = 0; j < size; ++j) {
      values[j] = ((kept[k][j] - origin) - part.mean) * factor;
      if (has_scale) values[j] *= scale[k][j];
      if (has_bias) values[j] += bias[k][j];
    }
    y[k * lanes] = rounded_vector<Element>(values);
  }
}

}  // namespace
}  // namespace sluice::operations
