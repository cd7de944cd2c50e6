// SPDX-License-Identifier: Apache-2.0
#include "operations/dnn/attention_split_weights.cuh"

#include <cuda_runtime.h>

#include <cstdint>
#include <type_traits>

// Attention of few 16-bit numbers on tensor cores, with the shortest latency. The warps of a block
// share its queries and divide the keys: Dao et al., "Flash-Decoding", 2023. They read operands
// into fragments, all at once, and meet only for the results.
namespace sluice::operations {

/// What a kernel can rely on. Each form includes the ones before.
enum class split_form : std::uint8_t {
  any,
  whole_rows,  ///< heads have `split_plan::size` elements
  key_masks,   ///< not causal, a usual scale, and a mask, if any, that is the same for all queries
  one_step,    ///< the keys of one step are all
};

namespace {

#if !defined(__CUDA_ARCH__) || __CUDA_ARCH__ >= 800

/// What the warps of a block have found for its queries.
struct split_memory {
  // Of each lane, in four pieces of 8 elements that lie side by side in a row of the results; the
  // lanes of a warp use all banks.
  float4 sums[split_plan::warps][4][2][32];
  float maxima[split_plan::warps][split_plan::queries];
  float totals[split_plan::warps][split_plan::queries];
};

/// Where the results of a block go.
template <class Element>
struct split_results {
  Element* first;
  std::int64_t row;      // distance of rows
  std::int64_t element;  // distance of elements
  int count;             // of rows
  int size;              // elements of a row
  bool has_vectors;
};

/// Writes the sums, totals and maxima of a warp to shared memory.
__device__ inline void share_state(split_memory& memory, const core_state<split_plan>& state) {
  const int lane = static_cast<int>(threadIdx.x) % 32;
  const int warp = static_cast<int>(threadIdx.x) / 32;
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    float total = state.totals[0][half];
    total += __shfl_xor_sync(0xffffffffU, total, 1);
    total += __shfl_xor_sync(0xffffffffU, total, 2);
    if (lane % 4 == 0) {
      memory.maxima[warp][8 * half + lane / 4] = state.maxima[0][half];
      memory.totals[warp][8 * half + lane / 4] = total;
    }
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      const int column = 2 * half + i;
#pragma unroll
      for (int q = 0; q < 2; ++q) {
        const auto* const sums = &state.sums[0][4 * q];
        memory.sums[warp][column][q][lane] =
            make_float4(sums[0][column], sums[1][column], sums[2][column], sums[3][column]);
      }
    }
  }
}

/// Adds what the warps have found, and writes the results: each warp one piece of each lane.
template <class Element>
__device__ inline void write_split_results(const split_memory& memory,
                                           const split_results<Element>& results) {
  const int lane = static_cast<int>(threadIdx.x) % 32;
  const int piece = static_cast<int>(threadIdx.x) / 32;
  static_assert(split_plan::warps == 4, "one warp for each piece");
  const int row = piece / 2 * 8 + lane / 4;
  const int e = lane % 4 * 16 + piece % 2 * 8;
  float maximum = memory.maxima[0][row];
#pragma unroll
  for (int w = 1; w < split_plan::warps; ++w) maximum = fmaxf(maximum, memory.maxima[w][row]);
  const float shift = maximum == -attention_call::infinite_score ? 0.0f : maximum;
  float total = 0;
  float values[8] = {};
#pragma unroll
  for (int w = 0; w < split_plan::warps; ++w) {
    const float factor = power_of_two(memory.maxima[w][row] - shift);
    total = fmaf(memory.totals[w][row], factor, total);
#pragma unroll
    for (int q = 0; q < 2; ++q) {
      const float4 sums = memory.sums[w][piece][q][lane];
      values[4 * q] = fmaf(sums.x, factor, values[4 * q]);
      values[4 * q + 1] = fmaf(sums.y, factor, values[4 * q + 1]);
      values[4 * q + 2] = fmaf(sums.z, factor, values[4 * q + 2]);
      values[4 * q + 3] = fmaf(sums.w, factor, values[4 * q + 3]);
    }
  }
  const float factor = total == 0.0f ? 0.0f : 1.0f / total;
#pragma unroll
  for (float& value : values) value *= factor;
  if (row >= results.count) return;
  Element* const target = results.first + row * results.row;
  if (results.has_vectors) {
    if (e < results.size) {
      *reinterpret_cast<word_vector<Element>*>(target + e) = rounded_vector<Element>(values);
    }
    return;
  }
#pragma unroll
  for (int i = 0; i < 8; ++i) {
    if (e + i < results.size) put_f32(target[(e + i) * results.element], values[i]);
  }
}

#endif

/// Each block computes the results of `split_plan::queries` queries of a head, whose number is the
/// second one of the grid; the third one is the image. The rows of q, k and v are vectors, and
/// offsets within their heads fit in 32 bits.
template <class Element, split_form Form>
__global__ void __launch_bounds__(split_plan::threads)
    split_attention_kernel(const __grid_constant__ attention_call call,
                           const __grid_constant__ attention_addresses addresses,
                           bool has_vectors) {
#if !defined(__CUDA_ARCH__) || __CUDA_ARCH__ >= 800
  constexpr bool is_whole = Form >= split_form::whole_rows;
  constexpr bool has_key_masks = Form >= split_form::key_masks;
  constexpr bool is_one_step = Form == split_form::one_step;
  __shared__ split_memory memory;
  __shared__ alignas(8) float biases[split_plan::warps][split_plan::keys];
  const int warp = static_cast<int>(threadIdx.x) / 32;
  const int query = static_cast<int>(blockIdx.x) * split_plan::queries;
  const std::int64_t head = blockIdx.y;
  const std::int64_t image = blockIdx.z;
  const std::int64_t shared = call.sharing == 1 ? head : divide(head, call.sharing).value;
  const auto all_queries = static_cast<int>(call.queries);
  const int end = min(query + split_plan::queries, all_queries);
  const auto visible = static_cast<int>(has_key_masks ? call.keys : call.visible_keys(end));
  const auto key_size = static_cast<int>(call.key_size);
  const auto value_size = static_cast<int>(call.value_size);
  const core_rows<Element> q{
      static_cast<const Element*>(addresses.q) + image * call.q[0] + head * call.q[1], call.q[2],
      call.q[3], all_queries, key_size};
  const core_rows<Element> k{
      static_cast<const Element*>(addresses.k) + image * call.k[0] + shared * call.k[1], call.k[2],
      call.k[3], visible, key_size};
  const core_rows<Element> v{
      static_cast<const Element*>(addresses.v) + image * call.v[0] + shared * call.v[1], call.v[2],
      call.v[3], visible, value_size};
  const std::int64_t mask_offset = image * call.mask[0] + head * call.mask[1];

  core_state<split_plan> state;
  state.maxima[0][0] = state.maxima[0][1] = -attention_call::infinite_score;
  const int first = warp * split_plan::keys;
  if (first < visible) {
    split_operands<Element> operands;
    std::conditional_t<has_key_masks, key_mask<Element>, step_mask<Element>> mask;
    const auto load_mask = [&](int key) {
      if constexpr (has_key_masks) {
        mask.load(call, addresses.mask, mask_offset, key);
      } else {
        mask.load(call, addresses.mask, mask_offset, query, key);
      }
    };
    const auto load_keys = [&](int key) {
      if (is_whole && key + split_plan::keys <= visible) {
        operands.keys.template load<true, false>(k, key);
      } else {
        operands.keys.template load<false, false>(k, key);
      }
    };
    const auto load_values = [&](int key) {
      if (is_whole && key + split_plan::keys <= visible) {
        operands.values.template load<true>(v, key);
      } else {
        operands.values.template load<false>(v, key);
      }
    };
    // Each operand of the next step is read once the registers of its predecessor are free.
    const auto compute = [&](int key, int next) {
      if constexpr (has_key_masks) mask.share(biases[warp]);
      core_scores<split_plan> scores = {};
      add_products(operands, scores);
      const bool has_next = !is_one_step && next < visible;
      if (has_next) load_keys(next);
      if constexpr (has_key_masks) {
        mask.apply(call, key, biases[warp], scores);
      } else {
        mask.apply(call, query, key, scores);
      }
      if (has_next) load_mask(next);
      weigh_step<is_one_step>(state, scores);
      add_weighted(scores, operands, state);
      if (has_next) load_values(next);
    };
    operands.queries.template load<is_whole, true>(q, query);
    load_keys(first);
    load_values(first);
    load_mask(first);  // the last one, because its elements are converted
    if constexpr (is_one_step) {
      compute(first, visible);
    } else {
#pragma unroll 1
      for (int key = first; key < visible; key += split_plan::step_keys) {
        compute(key, key + split_plan::step_keys);
      }
    }
  }
  share_state(memory, state);
  __syncthreads();
  write_split_results(
      memory, split_results<Element>{static_cast<Element*>(addresses.y) + image * call.y[0] +
                                         head * call.y[1] + query * call.y[2],
                                     call.y[2], call.y[3], end - query, value_size, has_vectors});
#endif
}

[[nodiscard]] split_form form_of(const attention_call& call) {
  constexpr float largest_scale = 1e30f;  // its product with log2(e) is finite
  if (call.key_size != split_plan::size || call.value_size != split_plan::size) {
    return split_form::any;
  }
  if (call.is_causal || (call.has_mask && call.mask[2] != 0) || call.scale >= largest_scale ||
      call.scale <= -largest_scale) {
    return split_form::whole_rows;
  }
  return call.keys > split_plan::step_keys ? split_form::key_masks : split_form::one_step;
}

/// Calls `run` with the kernel for elements of a type and for a form.
///@{
template <class Element, class Run>
int with_split_kernel(split_form form, const Run& run) {
  switch (form) {
    case split_form::any:
      return run(split_attention_kernel<Element, split_form::any>);
    case split_form::whole_rows:
      return run(split_attention_kernel<Element, split_form::whole_rows>);
    case split_form::key_masks:
      return run(split_attention_kernel<Element, split_form::key_masks>);
    default:
      return run(split_attention_kernel<Element, split_form::one_step>);
  }
}
template <class Run>
int with_split_kernel(storage type, split_form form, const Run& run) {
  if (type == storage::f16) return with_split_kernel<__half>(form, run);
  return with_split_kernel<__nv_bfloat16>(form, run);
}
///@}

/// Whether the rows of a head are vectors whose offsets fit in 32 bits.
[[nodiscard]] bool suits_fragments(const void* memory, const std::int64_t (&strides)[4],
                                   std::int64_t rows, std::int64_t size) {
  constexpr std::int64_t most_elements = (std::int64_t{1} << 32) - 1;
  return has_row_vectors(memory, strides, size) && strides[2] >= 0 && strides[2] <= most_elements &&
         rows * strides[2] + size <= most_elements;
}

}  // namespace

int load_split_attention() {
  int status = cudaSuccess;
  for (const auto type : {storage::f16, storage::bf16}) {
    for (const auto form :
         {split_form::any, split_form::whole_rows, split_form::key_masks, split_form::one_step}) {
      if (status != cudaSuccess) return status;
      status = with_split_kernel(type, form, [](auto* kernel) -> int {
        cudaFuncAttributes attributes;
        return cudaFuncGetAttributes(&attributes, kernel);
      });
    }
  }
  return status;
}

bool suits_split_attention(const attention_call& call, const attention_addresses& addresses,
                           int processors) {
  constexpr std::int64_t most_rows = 65535;  // of a grid
  if (!suits_tensor_cores(call) || call.key_size > split_plan::size ||
      call.value_size > split_plan::size || call.batch > most_rows || call.heads > most_rows) {
    return false;
  }
  // Other kernels read a mask element by element, and keys and values for more queries at once.
  const std::int64_t blocks =
      call.batch * call.heads * ((call.queries - 1) / split_plan::queries + 1);
  const std::int64_t most_blocks = std::int64_t{processors} * (call.has_mask ? 8 : 2);
  const bool is_fast = call.keys <= 256
                           ? call.has_mask || blocks <= most_blocks
                           : call.has_mask && call.keys <= 512 && blocks <= most_blocks;
  return is_fast && suits_fragments(addresses.q, call.q, call.queries, call.key_size) &&
         suits_fragments(addresses.k, call.k, call.keys, call.key_size) &&
         suits_fragments(addresses.v, call.v, call.keys, call.value_size);
}

int launch_split_attention(const attention_call& call, const attention_addresses& addresses,
                           native_stream* stream) {
  const dim3 grid(static_cast<unsigned>((call.queries - 1) / split_plan::queries + 1),
                  static_cast<unsigned>(call.heads), static_cast<unsigned>(call.batch));
  const bool has_vectors = has_row_vectors(addresses.y, call.y, call.value_size);
  return with_split_kernel(call.type, form_of(call), [&](auto* kernel) -> int {
    kernel<<<grid, split_plan::threads, 0, reinterpret_cast<cudaStream_t>(stream)>>>(
        call, addresses, has_vectors);
    return cudaGetLastError();
  });
}

}  // namespace sluice::operations
