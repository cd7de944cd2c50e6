// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "operations/dnn/attention_split_fragments.cuh"

#include <cuda_runtime.h>

#include <cstdint>

// The masks and weights of a step whose operands are read before the scores are known. Scaled
// scores are logarithms to the base of two.
#if !defined(__CUDA_ARCH__) || __CUDA_ARCH__ >= 800

namespace sluice::operations {
namespace {

/// The elements of any mask for the scores of a lane.
template <class Element>
class step_mask {
 public:
  /// Reads the elements for queries from `query` on and keys from `key` on; `mask` is the offset of
  /// the head.
  __device__ void load(const attention_call& call, const void* masks, std::int64_t mask, int query,
                       int key) {
    if (!call.has_mask) return;
    if (call.mask_type == storage::boolean) {
      load_as(call, static_cast<const std::uint8_t*>(masks) + mask, query, key);
    } else {
      load_as(call, static_cast<const std::uint16_t*>(masks) + mask, query, key);
    }
  }
  /// Scales the scores and applies the mask and the ends of the visible keys.
  __device__ void apply(const attention_call& call, int query, int key,
                        core_scores<split_plan>& scores) const {
    const auto replace_each = [&](const auto& masked) {
#pragma unroll
      for (int n = 0; n < split_plan::keys / 8; ++n) {
#pragma unroll
        for (int i = 0; i < 4; ++i) {
          float& score = scores[0][n][i];
          score = masked(score * call.scale, elements_[i / 2][n][i % 2]);
        }
      }
    };
    if (!call.has_mask) {
      replace_each([](float score, std::uint16_t) { return score; });
    } else if (call.mask_type == storage::boolean) {
      replace_each([](float score, std::uint16_t sees) {
        return sees != 0 ? score : -attention_call::infinite_score;
      });
    } else {
      replace_each([](float score, std::uint16_t bias) {
        return score + to_f32(reinterpret_cast<const Element&>(bias));
      });
    }
    hide<split_plan>(call, query + static_cast<int>(threadIdx.x) % 32 / 4, key, scores);
#pragma unroll
    for (auto& block : scores[0]) {
#pragma unroll
      for (float& score : block) score *= log2_e;
    }
  }

 private:
  template <class Mask>
  __device__ void load_as(const attention_call& call, const Mask* masks, int query, int key) {
    const int lane = static_cast<int>(threadIdx.x) % 32;
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      // Queries and keys after the last one take its elements.
      const int row = min(query + 8 * half + lane / 4, static_cast<int>(call.queries) - 1);
#pragma unroll
      for (int n = 0; n < split_plan::keys / 8; ++n) {
#pragma unroll
        for (int i = 0; i < 2; ++i) {
          if (half == 1 && call.mask[2] == 0) {
            elements_[half][n][i] = elements_[0][n][i];
            continue;
          }
          const int column = min(key + 8 * n + lane % 4 * 2 + i, static_cast<int>(call.keys) - 1);
          elements_[half][n][i] = masks[row * call.mask[2] + column * call.mask[3]];
        }
      }
    }
  }

  std::uint16_t elements_[2][split_plan::keys / 8][2];  // f16, bf16 or boolean
};

/// A mask that is the same for all queries: each lane reads the element of one key of the step.
template <class Element>
class key_mask {
 public:
  /// Reads the element of the key of the lane; `mask` is the offset of the head.
  __device__ void load(const attention_call& call, const void* masks, std::int64_t mask, int key) {
    static_assert(split_plan::keys == 32);
    bias_ = bias_of(call, masks, mask, key + static_cast<int>(threadIdx.x) % 32);
  }
  /// Shares the elements with the lanes of the warp, through its memory.
  __device__ void share(float (&biases)[split_plan::keys]) {
    __syncwarp();
    biases[threadIdx.x % 32] = bias_;
    __syncwarp();
  }
  /// Scales the scores and applies the shared elements.
  static __device__ void apply(const attention_call& call, int key,
                               const float (&biases)[split_plan::keys],
                               core_scores<split_plan>& scores) {
    const float factor = call.scale * log2_e;
    const int column = static_cast<int>(threadIdx.x) % 4 * 2;
#pragma unroll
    for (int n = 0; n < split_plan::keys / 8; ++n) {
      const float2 bias = *reinterpret_cast<const float2*>(biases + 8 * n + column);
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        scores[0][n][i] = fmaf(scores[0][n][i], factor, i % 2 == 0 ? bias.x : bias.y);
      }
    }
    // Scores of hidden keys are replaced: they may be NaN.
    const bool is_boolean = call.has_mask && call.mask_type == storage::boolean;
    if (!is_boolean && key + split_plan::keys <= call.keys) return;
#pragma unroll
    for (int n = 0; n < split_plan::keys / 8; ++n) {
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        if (__float_as_uint(biases[8 * n + column + i % 2]) == hidden) {
          scores[0][n][i] = -attention_call::infinite_score;
        }
      }
    }
  }

 private:
  [[nodiscard]] static __device__ float bias_of(const attention_call& call, const void* masks,
                                                std::int64_t mask, int key) {
    if (key >= call.keys) return __uint_as_float(hidden);
    if (!call.has_mask) return 0;
    const std::int64_t offset = mask + key * call.mask[3];
    if (call.mask_type == storage::boolean) {
      return static_cast<const std::uint8_t*>(masks)[offset] != 0 ? 0.0f : __uint_as_float(hidden);
    }
    return log2_e * to_f32(static_cast<const Element*>(masks)[offset]);
  }

  /// The bias of hidden keys, which is no result of a product: the NaN of products is 0x7fffffff.
  static constexpr std::uint32_t hidden = 0x7fc00001U;

  float bias_;
};

/// Turns scores into weights. The maxima and the totals include those of the step. `IsFirst` states
/// that there was no step before.
template <bool IsFirst>
__device__ inline void weigh_step(core_state<split_plan>& state, core_scores<split_plan>& scores) {
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    float largest = fmaxf(scores[0][0][2 * half], scores[0][0][2 * half + 1]);
#pragma unroll
    for (int n = 1; n < split_plan::keys / 8; ++n) {
      largest = fmaxf(largest, fmaxf(scores[0][n][2 * half], scores[0][n][2 * half + 1]));
    }
    largest = fmaxf(largest, __shfl_xor_sync(0xffffffffU, largest, 1));
    largest = fmaxf(largest, __shfl_xor_sync(0xffffffffU, largest, 2));
    // A maximum is a number or infinite: it is not NaN also if all scores are.
    float& maximum = state.maxima[0][half];
    const float last = IsFirst ? -attention_call::infinite_score : maximum;
    maximum = fmaxf(largest, last);
    // Scores of -infinity have the weight 0 also where there are no others.
    const float shift = maximum == -attention_call::infinite_score ? 0.0f : maximum;
    float total = 0;
#pragma unroll
    for (int n = 0; n < split_plan::keys / 8; ++n) {
#pragma unroll
      for (int i = 0; i < 2; ++i) {
        float& score = scores[0][n][2 * half + i];
        score = power_of_two(score - shift);
        total += score;
      }
    }
    if constexpr (IsFirst) {
      state.totals[0][half] = total;
    } else {
      const float correction = power_of_two(last - shift);
      state.totals[0][half] = fmaf(state.totals[0][half], correction, total);
#pragma unroll
      for (int n = 0; n < split_plan::size / 8; ++n) {
        state.sums[0][n][2 * half] *= correction;
        state.sums[0][n][2 * half + 1] *= correction;
      }
    }
  }
}

}  // namespace
}  // namespace sluice::operations

#endif
