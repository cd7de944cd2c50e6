// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "operations/dnn/attention_call.hpp"
#include "operations/dnn/attention_fragments.cuh"
#include "operations/elementwise/strided_map.hpp"

#include <cuda_runtime.h>

#include <cstdint>

// What kernels of attention on tensor cores share: the weights of a step in registers, and the
// results. A plan states the elements of a row as `size`, the keys of a step as `keys`, the queries
// of a warp as `tiles` times 16, and the distance of staged results as `row`.
namespace sluice::operations {
namespace {

/// What of memory can be read and written in vectors of 16 bytes.
struct core_vectors {
  bool q;
  bool k;
  bool v;
  bool y;
};

#if !defined(__CUDA_ARCH__) || __CUDA_ARCH__ >= 800

constexpr float log2_e = 1.44269504F;

/// Weights are powers of two of scores less a maximum. It stays until a score exceeds it by this
/// much, so that sums are seldom corrected; weights up to 2^8 keep their precision.
constexpr float most_excess = 8;

/// What has been summed for the queries of a warp. Lane 4 · g + t has rows g and g + 8 of each 16,
/// and of each eight columns 2t and 2t + 1. The maxima are logarithms to the base of two.
template <class Plan>
struct core_state {
  float sums[Plan::tiles][Plan::size / 8][4] = {};
  float maxima[Plan::tiles][2];
  float totals[Plan::tiles][2] = {};
};

template <class Plan>
using core_scores = float[Plan::tiles][Plan::keys / 8][4];

/// The keys of a step from `key` on that a query sees, without the mask.
[[nodiscard]] __device__ inline int visible_of_step(const attention_call& call, int query,
                                                    int key) {
  return query < call.queries ? static_cast<int>(call.visible_keys(query + 1)) - key : 0;
}

/// Hides the keys that queries do not see. `query` is the first row of the lane, `key` the first
/// column of the step.
template <class Plan>
__device__ inline void hide(const attention_call& call, int query, int key,
                            core_scores<Plan>& scores) {
  const int column = static_cast<int>(threadIdx.x) % 4 * 2;
#pragma unroll
  for (int tile = 0; tile < Plan::tiles; ++tile) {
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const int end = visible_of_step(call, query + 16 * tile + 8 * half, key) - column;
#pragma unroll
      for (int n = 0; n < Plan::keys / 8; ++n) {
#pragma unroll
        for (int i = 0; i < 2; ++i) {
          if (8 * n + i >= end) scores[tile][n][2 * half + i] = -attention_call::infinite_score;
        }
      }
    }
  }
}

/// Scales scores and applies the mask, whose elements are those of the operands if they are not
/// boolean.
template <class Plan, class Element>
__device__ inline void scale_and_mask(const attention_call& call, const void* masks,
                                      std::int64_t mask, int query, int key,
                                      core_scores<Plan>& scores) {
  const int column = static_cast<int>(threadIdx.x) % 4 * 2;
#pragma unroll
  for (int tile = 0; tile < Plan::tiles; ++tile) {
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const int row = query + 16 * tile + 8 * half;
      const int end = call.has_mask ? visible_of_step(call, row, key) - column : 0;
      const std::int64_t first = mask + row * call.mask[2] + (key + column) * call.mask[3];
#pragma unroll
      for (int n = 0; n < Plan::keys / 8; ++n) {
#pragma unroll
        for (int i = 0; i < 2; ++i) {
          float& score = scores[tile][n][2 * half + i];
          score *= call.scale;
          if (8 * n + i >= end) continue;
          const std::int64_t position = first + (8 * n + i) * call.mask[3];
          if (call.mask_type == storage::boolean) {
            if (static_cast<const std::uint8_t*>(masks)[position] == 0) {
              score = -attention_call::infinite_score;
            }
          } else {
            score += to_f32(static_cast<const Element*>(masks)[position]);
          }
        }
      }
    }
  }
}

/// What the sums of a row are multiplied by if a maximum moves.
template <class Plan>
struct core_corrections {
  float factors[Plan::tiles][2];
  bool any = false;  // of the warp
};

/// Turns scores into weights, and corrects the maxima and the totals. `factor` makes scores
/// logarithms to the base of two.
template <class Plan>
__device__ inline void weigh(float factor, core_state<Plan>& state, core_scores<Plan>& scores,
                             core_corrections<Plan>& corrections) {
  float largest[Plan::tiles][2];
  bool exceeds = false;
#pragma unroll
  for (int tile = 0; tile < Plan::tiles; ++tile) {
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      float score = scores[tile][0][2 * half];
#pragma unroll
      for (int n = 0; n < Plan::keys / 8; ++n) {
        score = fmaxf(score, fmaxf(scores[tile][n][2 * half], scores[tile][n][2 * half + 1]));
      }
      score = fmaxf(score, __shfl_xor_sync(0xffffffffU, score, 1));
      score = fmaxf(score, __shfl_xor_sync(0xffffffffU, score, 2));
      // A maximum is a number or infinite: it is not NaN also if all scores are.
      largest[tile][half] = fmaxf(score * factor, -attention_call::infinite_score);
      exceeds = exceeds || largest[tile][half] > state.maxima[tile][half] + most_excess;
    }
  }
  corrections.any = __any_sync(0xffffffffU, exceeds) != 0;
  if (corrections.any) {
#pragma unroll
    for (int tile = 0; tile < Plan::tiles; ++tile) {
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        float& maximum = state.maxima[tile][half];
        const float next = fmaxf(maximum, largest[tile][half]);
        // Nothing has been summed while the maximum is -infinity.
        const float correction =
            next == -attention_call::infinite_score ? 1.0f : power_of_two(maximum - next);
        maximum = next;
        state.totals[tile][half] *= correction;
        corrections.factors[tile][half] = correction;
      }
    }
  }
#pragma unroll
  for (int tile = 0; tile < Plan::tiles; ++tile) {
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      // Scores of -infinity have the weight 0 also where there are no others.
      const float maximum = state.maxima[tile][half];
      const float shift = maximum == -attention_call::infinite_score ? 0.0f : -maximum;
#pragma unroll
      for (int n = 0; n < Plan::keys / 8; ++n) {
#pragma unroll
        for (int i = 0; i < 2; ++i) {
          float& score = scores[tile][n][2 * half + i];
          score = power_of_two(fmaf(score, factor, shift));
          state.totals[tile][half] += score;
        }
      }
    }
  }
}

/// Corrects the sums.
template <class Plan>
__device__ inline void correct(const core_corrections<Plan>& corrections, core_state<Plan>& state) {
  if (!corrections.any) return;
#pragma unroll
  for (int tile = 0; tile < Plan::tiles; ++tile) {
#pragma unroll
    for (int n = 0; n < Plan::size / 8; ++n) {
#pragma unroll
      for (int i = 0; i < 4; ++i) state.sums[tile][n][i] *= corrections.factors[tile][i / 2];
    }
  }
}

/// The weights of 16 keys as a fragment. The scores of two blocks of eight columns are the fragment
/// of 16 columns of the weights.
template <class Element>
__device__ inline void pack_weights(const float (&left)[4], const float (&right)[4],
                                    std::uint32_t (&result)[4]) {
  result[0] = packed_pair(Element{}, left[0], left[1]);
  result[1] = packed_pair(Element{}, left[2], left[3]);
  result[2] = packed_pair(Element{}, right[0], right[1]);
  result[3] = packed_pair(Element{}, right[2], right[3]);
}

/// Writes the results of a warp, through its staged queries if the rows of y are vectors.
template <class Plan, class Element>
__device__ inline void write_results(const attention_call& call, Element* results, int query,
                                     bool has_vectors, Element* staged, core_state<Plan>& state) {
  const int lane = static_cast<int>(threadIdx.x) % 32;
  const int column = lane % 4 * 2;
  const int size = static_cast<int>(call.value_size);
  __syncwarp();
#pragma unroll
  for (int tile = 0; tile < Plan::tiles; ++tile) {
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      float total = state.totals[tile][half];
      total += __shfl_xor_sync(0xffffffffU, total, 1);
      total += __shfl_xor_sync(0xffffffffU, total, 2);
      const float factor = total == 0.0f ? 0.0f : 1.0f / total;
      const int r = 16 * tile + 8 * half + lane / 4;
      Element* const target = results + (query + r) * call.y[2];
      Element* const vectors = staged + r * Plan::row + column;
#pragma unroll
      for (int n = 0; n < Plan::size / 8; ++n) {
        const float low = state.sums[tile][n][2 * half] * factor;
        const float high = state.sums[tile][n][2 * half + 1] * factor;
        if (has_vectors) {
          *reinterpret_cast<std::uint32_t*>(vectors + 8 * n) = packed_pair(Element{}, low, high);
        } else if (query + r < call.queries) {
          const int e = 8 * n + column;
          if (e < size) put_f32(target[e * call.y[3]], low);
          if (e + 1 < size) put_f32(target[(e + 1) * call.y[3]], high);
        }
      }
    }
  }
  if (!has_vectors) return;
  __syncwarp();
  constexpr int row_vectors = Plan::size / 8;
#pragma unroll 4
  for (int i = lane; i < Plan::warp_queries * row_vectors; i += 32) {
    const int r = i / row_vectors;
    const int e = i % row_vectors * 8;
    if (query + r < call.queries && e < size) {
      *reinterpret_cast<uint4*>(results + (query + r) * call.y[2] + e) =
          *reinterpret_cast<const uint4*>(staged + r * Plan::row + e);
    }
  }
}

#endif

/// Whether the rows of a head are whole vectors of 16 bytes.
[[nodiscard]] bool has_row_vectors(const void* memory, const std::int64_t (&strides)[4],
                                   std::int64_t size) {
  return reinterpret_cast<std::uintptr_t>(memory) % 16 == 0 && strides[3] == 1 && size % 8 == 0 &&
         strides[0] % 8 == 0 && strides[1] % 8 == 0 && strides[2] % 8 == 0;
}

}  // namespace
}  // namespace sluice::operations
