// SPDX-License-Identifier: Apache-2.0
#include "operations/dnn/attention_call.hpp"
#include "operations/elementwise/strided_map.hpp"
#include "operations/elementwise/vectors.cuh"

#include <cuda_runtime.h>

#include <cstdint>

// Attention of all types and sizes, computed in f32.
namespace sluice::operations {
namespace {

constexpr int attention_threads = 256;
constexpr int tile = 64;         // queries, and keys, of a block
constexpr int tile_row = 68;     // with a gap, so that vectors begin in different banks
constexpr int chunk = 32;        // elements of heads, and rows of V, that are staged at a time
constexpr int value_tile = 128;  // elements of the values of a block
// Beyond this the loop in the kernel takes the rest.
constexpr std::int64_t most_attention_blocks = 1 << 30;

/// Where the rows of a head lie.
template <class Element>
struct attention_rows {
  const Element* first;
  std::int64_t row;
  std::int64_t element;
  [[nodiscard]] __device__ float at(std::int64_t r, std::int64_t i) const {
    return to_f32(first[r * row + i * element]);
  }
};

/// The largest value, or the sum, of 16 neighbouring threads.
///@{
[[nodiscard]] __device__ inline float largest_of_16(float value) {
#pragma unroll
  for (int distance = 8; distance > 0; distance /= 2) {
    value = fmaxf(value, __shfl_xor_sync(0xffffffffU, value, distance));
  }
  return value;
}
[[nodiscard]] __device__ inline float sum_of_16(float value) {
#pragma unroll
  for (int distance = 8; distance > 0; distance /= 2) {
    value += __shfl_xor_sync(0xffffffffU, value, distance);
  }
  return value;
}
///@}

/// Adds the products of `chunk` staged elements to 4 × 4 scores.
__device__ inline void add_scores(const float* queries, const float* keys, int y, int x,
                                  float (&scores)[4][4]) {
#pragma unroll 8
  for (int k = 0; k < chunk; ++k) {
    const float4 a = *reinterpret_cast<const float4*>(queries + k * tile_row + 4 * y);
    const float4 b = *reinterpret_cast<const float4*>(keys + k * tile_row + 4 * x);
    const float left[4] = {a.x, a.y, a.z, a.w};
    const float right[4] = {b.x, b.y, b.z, b.w};
#pragma unroll
    for (int i = 0; i < 4; ++i) {
#pragma unroll
      for (int j = 0; j < 4; ++j) scores[i][j] = fmaf(left[i], right[j], scores[i][j]);
    }
  }
}

/// Adds the weighted values of `chunk` staged rows of V to 4 × 8 sums.
__device__ inline void add_values(const float* weights, const float* values, int y, int x,
                                  float (&sums)[4][8]) {
#pragma unroll 4
  for (int k = 0; k < chunk; ++k) {
    const float4 a = *reinterpret_cast<const float4*>(weights + k * tile_row + 4 * y);
    const float4 low = *reinterpret_cast<const float4*>(values + k * value_tile + 4 * x);
    const float4 high = *reinterpret_cast<const float4*>(values + k * value_tile + 64 + 4 * x);
    const float left[4] = {a.x, a.y, a.z, a.w};
    const float right[8] = {low.x, low.y, low.z, low.w, high.x, high.y, high.z, high.w};
#pragma unroll
    for (int i = 0; i < 4; ++i) {
#pragma unroll
      for (int j = 0; j < 8; ++j) sums[i][j] = fmaf(left[i], right[j], sums[i][j]);
    }
  }
}

/// Each block computes `tile` queries and `value_tile` elements of their results. A thread has 4
/// queries, 4 keys of each tile and 8 elements. The maxima and the sums of the weights so far are
/// corrected with each tile of keys: Milakov and Gimelshein, "Online normalizer calculation for
/// softmax", 2018.
template <class Element>
__global__ void __launch_bounds__(attention_threads)
    attention_kernel(const __grid_constant__ attention_call call,
                     const __grid_constant__ attention_addresses addresses) {
  // Chunks of queries and keys, or of values.
  __shared__ alignas(16) float staged[2 * chunk * tile_row];
  __shared__ alignas(16) float weights[tile * tile_row];  // transposed
  static_assert(chunk * value_tile <= 2 * chunk * tile_row);
  float* const staged_keys = staged + chunk * tile_row;
  const int thread = static_cast<int>(threadIdx.x);
  const int x = thread % 16;
  const int y = thread / 16;
  const std::int64_t query_tiles = (call.queries - 1) / tile + 1;
  const std::int64_t value_tiles = (call.value_size - 1) / value_tile + 1;
  const std::int64_t blocks = call.batch * call.heads * value_tiles * query_tiles;

  for (std::int64_t block = blockIdx.x; block < blocks; block += gridDim.x) {
    const auto by_tile = divide(block, query_tiles);
    const auto by_value = divide(by_tile.value, value_tiles);
    const auto by_head = divide(by_value.value, call.heads);
    const std::int64_t image = by_head.value;
    const std::int64_t head = by_head.remainder;
    const std::int64_t shared = divide(head, call.sharing).value;
    const std::int64_t first = by_tile.remainder * tile;
    const std::int64_t element = by_value.remainder * value_tile;
    const attention_rows<Element> q{
        static_cast<const Element*>(addresses.q) + image * call.q[0] + head * call.q[1], call.q[2],
        call.q[3]};
    const attention_rows<Element> k{
        static_cast<const Element*>(addresses.k) + image * call.k[0] + shared * call.k[1],
        call.k[2], call.k[3]};
    const attention_rows<Element> v{
        static_cast<const Element*>(addresses.v) + image * call.v[0] + shared * call.v[1],
        call.v[2], call.v[3]};
    const std::int64_t mask = image * call.mask[0] + head * call.mask[1];
    const std::int64_t end = first + tile < call.queries ? first + tile : call.queries;
    const std::int64_t visible = call.visible_keys(end);

    float sums[4][8] = {};
    float maxima[4];
    float totals[4] = {};
#pragma unroll
    for (float& maximum : maxima) maximum = -attention_call::infinite_score;

    for (std::int64_t key = 0; key < visible; key += tile) {
      float scores[4][4] = {};
      for (std::int64_t part = 0; part < call.key_size; part += chunk) {
        __syncthreads();
        for (int i = thread; i < tile * chunk; i += attention_threads) {
          const int r = i / chunk;
          const int e = i % chunk;
          const bool exists = part + e < call.key_size;
          staged[e * tile_row + r] =
              exists && first + r < call.queries ? q.at(first + r, part + e) : 0.0f;
          staged_keys[e * tile_row + r] =
              exists && key + r < visible ? k.at(key + r, part + e) : 0.0f;
        }
        __syncthreads();
        add_scores(staged, staged_keys, y, x, scores);
      }
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        const std::int64_t query = first + 4 * y + i;
        const std::int64_t last =
            query < call.queries ? call.visible_keys(query + 1) : static_cast<std::int64_t>(0);
        float largest = maxima[i];
#pragma unroll
        for (int j = 0; j < 4; ++j) {
          const std::int64_t position = key + 4 * x + j;
          float score = scores[i][j] * call.scale;
          if (position >= last) {
            score = -attention_call::infinite_score;
          } else if (call.has_mask) {
            score = call.masked(score, addresses.mask,
                                mask + query * call.mask[2] + position * call.mask[3]);
          }
          scores[i][j] = score;
          largest = fmaxf(largest, score);
        }
        largest = largest_of_16(largest);
        // Scores of -infinity have the weight 0 also where there are no others.
        const float shift = largest == -attention_call::infinite_score ? 0.0f : largest;
        const float correction = expf(maxima[i] - shift);
        maxima[i] = largest;
        totals[i] *= correction;
#pragma unroll
        for (int j = 0; j < 4; ++j) {
          scores[i][j] = expf(scores[i][j] - shift);
          totals[i] += scores[i][j];
        }
#pragma unroll
        for (int j = 0; j < 8; ++j) sums[i][j] *= correction;
      }
      __syncthreads();
#pragma unroll
      for (int j = 0; j < 4; ++j) {
        *reinterpret_cast<float4*>(weights + (4 * x + j) * tile_row + 4 * y) =
            make_float4(scores[0][j], scores[1][j], scores[2][j], scores[3][j]);
      }
      for (int part = 0; part < tile; part += chunk) {
        if (part > 0) __syncthreads();
        for (int i = thread; i < chunk * value_tile; i += attention_threads) {
          const int r = i / value_tile;
          const int e = i % value_tile;
          const std::int64_t row = key + part + r;
          staged[i] =
              row < visible && element + e < call.value_size ? v.at(row, element + e) : 0.0f;
        }
        __syncthreads();
        add_values(weights + part * tile_row, staged, y, x, sums);
      }
    }

    auto* const results = static_cast<Element*>(addresses.y) + image * call.y[0] + head * call.y[1];
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const float total = sum_of_16(totals[i]);
      const std::int64_t query = first + 4 * y + i;
      if (query >= call.queries) continue;
      const float factor = total == 0.0f ? 0.0f : 1.0f / total;
#pragma unroll
      for (int j = 0; j < 8; ++j) {
        const std::int64_t e = element + 4 * x + j % 4 + 64 * (j / 4);
        if (e < call.value_size) {
          put_f32(results[query * call.y[2] + e * call.y[3]], sums[i][j] * factor);
        }
      }
    }
    __syncthreads();
  }
}

template <class Run>
int with_attention_element(storage type, const Run& run) {
  if (type == storage::f16) return run(__half{});
  if (type == storage::bf16) return run(__nv_bfloat16{});
  return run(float{});
}

}  // namespace

int load_attention() {
  int status = cudaSuccess;
  for (const auto type : {storage::f16, storage::bf16, storage::f32}) {
    if (status != cudaSuccess) break;
    status = with_attention_element(type, [](auto element) -> int {
      cudaFuncAttributes attributes;
      return cudaFuncGetAttributes(&attributes, attention_kernel<decltype(element)>);
    });
  }
  return status;
}

int launch_attention(const attention_call& call, const attention_addresses& addresses,
                     native_stream* stream) {
  const std::int64_t blocks = call.batch * call.heads * ((call.queries - 1) / tile + 1) *
                              ((call.value_size - 1) / value_tile + 1);
  const auto grid =
      static_cast<unsigned>(blocks < most_attention_blocks ? blocks : most_attention_blocks);
  return with_attention_element(call.type, [&](auto element) -> int {
    attention_kernel<decltype(element)>
        <<<grid, attention_threads, 0, reinterpret_cast<cudaStream_t>(stream)>>>(call, addresses);
    return cudaGetLastError();
  });
}

}  // namespace sluice::operations
