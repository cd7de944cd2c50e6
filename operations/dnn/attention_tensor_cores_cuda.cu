// SPDX-License-Identifier: Apache-2.0
#include "operations/dnn/attention_weights.cuh"

#include <cuda_runtime.h>

#include <cstdint>

// Attention of 16-bit numbers on tensor cores, with products that are summed in f32. A warp has the
// scores and the sums of its queries in registers: Dao, "FlashAttention-2", 2023.
namespace sluice::operations {

constexpr int core_threads = 128;
constexpr int core_warps = core_threads / 32;

/// How a kernel divides its work: rows have up to `Size` elements, a warp has `Tiles` times 16
/// queries, and a step `Keys` keys. The queries stay in registers, or in shared memory. `Blocks`
/// blocks fit on a multiprocessor.
template <int Size, int Tiles, int Keys, bool KeepsQueries, int Blocks>
struct core_plan {
  static constexpr int size = Size;
  static constexpr int row = Size + 8;  // of staged elements
  static constexpr int tiles = Tiles;
  static constexpr int warp_queries = 16 * Tiles;
  static constexpr int queries = core_warps * warp_queries;
  static constexpr int keys = Keys;
  static constexpr bool keeps_queries = KeepsQueries;
  static constexpr int blocks = Blocks;
  /// The queries, and two buffers for each of the keys and the values of a step.
  static constexpr int staged_bytes = (queries + 4 * keys) * row * 2;
};

namespace {

constexpr std::int64_t most_core_blocks = 1 << 30;

#if !defined(__CUDA_ARCH__) || __CUDA_ARCH__ >= 800

/// The queries of a warp, or nothing if they stay in shared memory.
template <class Plan>
struct core_queries {
  std::uint32_t fragments[Plan::keeps_queries ? Plan::size / 16 : 1][Plan::tiles][4];
};

/// Loads 16 elements of the queries of a warp, from the position of the lane.
template <class Plan, class Element>
__device__ inline void load_queries(std::uint32_t (&result)[Plan::tiles][4],
                                    const Element* position) {
#pragma unroll
  for (int tile = 0; tile < Plan::tiles; ++tile) {
    load_matrices(result[tile], position + 16 * tile * Plan::row);
  }
}

/// scores = queries · keys, of a step. `rows` is the position of the lane among the queries.
template <class Plan, class Element>
__device__ inline void compute_scores(core_queries<Plan>& queries, const Element* rows,
                                      const Element* keys, core_scores<Plan>& scores) {
  const int lane = static_cast<int>(threadIdx.x) % 32;
  const Element* const first = keys + (lane / 16 * 8 + lane % 8) * Plan::row + lane / 8 % 2 * 8;
#pragma unroll
  for (int step = 0; step < Plan::size / 16; ++step) {
    auto& left = queries.fragments[Plan::keeps_queries ? step : 0];
    if constexpr (!Plan::keeps_queries) load_queries<Plan>(left, rows + 16 * step);
#pragma unroll
    for (int n = 0; n < Plan::keys / 16; ++n) {
      std::uint32_t right[4];
      load_matrices(right, first + 16 * n * Plan::row + 16 * step);
#pragma unroll
      for (int tile = 0; tile < Plan::tiles; ++tile) {
        multiply_add(Element{}, scores[tile][2 * n], left[tile], right[0], right[1]);
        multiply_add(Element{}, scores[tile][2 * n + 1], left[tile], right[2], right[3]);
      }
    }
  }
}

/// sums += weights · values, of a step.
template <class Plan, class Element>
__device__ inline void add_weighted(const core_scores<Plan>& weights, const Element* values,
                                    core_state<Plan>& state) {
  const int lane = static_cast<int>(threadIdx.x) % 32;
  const Element* const first = values + lane % 16 * Plan::row + lane / 16 * 8;
#pragma unroll
  for (int step = 0; step < Plan::keys / 16; ++step) {
    std::uint32_t factors[Plan::tiles][4];
#pragma unroll
    for (int tile = 0; tile < Plan::tiles; ++tile) {
      pack_weights<Element>(weights[tile][2 * step], weights[tile][2 * step + 1], factors[tile]);
    }
#pragma unroll
    for (int n = 0; n < Plan::size / 16; ++n) {
      std::uint32_t columns[4];
      load_transposed(columns, first + 16 * step * Plan::row + 16 * n);
#pragma unroll
      for (int tile = 0; tile < Plan::tiles; ++tile) {
        multiply_add(Element{}, state.sums[tile][2 * n], factors[tile], columns[0], columns[1]);
        multiply_add(Element{}, state.sums[tile][2 * n + 1], factors[tile], columns[2], columns[3]);
      }
    }
  }
}

#endif

/// The heads whose blocks run in turn, with the longest ones first.
struct core_order {
  std::int64_t heads;
};

/// Each block computes the results of `Plan::queries` queries of a head. While it computes with the
/// keys and the values of a step, it copies those of the next one.
template <class Element, class Plan>
__global__ void __launch_bounds__(core_threads, Plan::blocks)
    core_attention_kernel(const __grid_constant__ attention_call call,
                          const __grid_constant__ attention_addresses addresses,
                          core_vectors vectors, core_order order) {
#if !defined(__CUDA_ARCH__) || __CUDA_ARCH__ >= 800
  extern __shared__ uint4 staged[];
  constexpr int buffer = Plan::keys * Plan::row;
  auto* const staged_queries = reinterpret_cast<Element*>(staged);
  Element* const staged_keys = staged_queries + Plan::queries * Plan::row;
  Element* const staged_values = staged_keys + 2 * buffer;
  const int lane = static_cast<int>(threadIdx.x) % 32;
  const int warp = static_cast<int>(threadIdx.x) / 32;
  Element* const warp_rows = staged_queries + warp * Plan::warp_queries * Plan::row;
  const Element* const lane_rows = warp_rows + lane % 16 * Plan::row + lane / 16 * 8;
  const auto key_size = static_cast<int>(call.key_size);
  const auto value_size = static_cast<int>(call.value_size);
  const std::int64_t tiles = (call.queries - 1) / Plan::queries + 1;
  const std::int64_t all_heads = call.batch * call.heads;
  // The maximum may be that of scaled scores only if scaling keeps the order.
  const bool scales_early = call.has_mask || !(call.scale > 0.0f && call.scale < 1e30f);
  const float factor = scales_early ? log2_e : call.scale * log2_e;

  for (std::int64_t block = blockIdx.x; block < all_heads * tiles; block += gridDim.x) {
    const auto by_group = divide(block, order.heads * tiles);
    const std::int64_t first_head = by_group.value * order.heads;
    const std::int64_t rest_heads = all_heads - first_head;
    const auto by_tile =
        divide(by_group.remainder, rest_heads < order.heads ? rest_heads : order.heads);
    const auto by_head = divide(first_head + by_tile.remainder, call.heads);
    const std::int64_t image = by_head.value;
    const std::int64_t head = by_head.remainder;
    const std::int64_t shared = divide(head, call.sharing).value;
    const auto all_queries = static_cast<int>(call.queries);
    const int first = static_cast<int>(tiles - 1 - by_tile.value) * Plan::queries;
    const int end = min(first + Plan::queries, all_queries);
    const auto visible = static_cast<int>(call.visible_keys(end));
    const core_rows<Element> k{
        static_cast<const Element*>(addresses.k) + image * call.k[0] + shared * call.k[1],
        call.k[2], call.k[3], visible, key_size};
    const core_rows<Element> v{
        static_cast<const Element*>(addresses.v) + image * call.v[0] + shared * call.v[1],
        call.v[2], call.v[3], visible, value_size};
    const std::int64_t mask = image * call.mask[0] + head * call.mask[1];
    // What all, and some, queries of the warp see.
    const int query = first + warp * Plan::warp_queries;
    const auto seen_by_all = static_cast<int>(call.visible_keys(query + 1));
    const auto seen_by_some =
        query < end ? static_cast<int>(call.visible_keys(min(query + Plan::warp_queries, end))) : 0;

    core_state<Plan> state;
#pragma unroll
    for (auto& maxima : state.maxima) maxima[0] = maxima[1] = -attention_call::infinite_score;
    core_queries<Plan> queries;
    __syncthreads();
    if (visible > 0) {
      const core_rows<Element> q{
          static_cast<const Element*>(addresses.q) + image * call.q[0] + head * call.q[1],
          call.q[2], call.q[3], all_queries, key_size};
      stage<core_threads, Plan::queries, Plan::size>(staged_queries, q, first, vectors.q);
      stage<core_threads, Plan::keys, Plan::size>(staged_keys, k, 0, vectors.k);
      stage<core_threads, Plan::keys, Plan::size>(staged_values, v, 0, vectors.v);
      await_copies();
      __syncthreads();
      if constexpr (Plan::keeps_queries) {
#pragma unroll
        for (int step = 0; step < Plan::size / 16; ++step) {
          load_queries<Plan>(queries.fragments[step], lane_rows + 16 * step);
        }
      }
    }
    int current = 0;
#pragma unroll 1
    for (int key = 0; key < visible; key += Plan::keys) {
      const bool has_next = key + Plan::keys < visible;
      if (has_next) {
        const int next = buffer - current;
        stage<core_threads, Plan::keys, Plan::size>(staged_keys + next, k, key + Plan::keys,
                                                    vectors.k);
        stage<core_threads, Plan::keys, Plan::size>(staged_values + next, v, key + Plan::keys,
                                                    vectors.v);
      }
      if (key < seen_by_some) {
        core_scores<Plan> scores = {};
        compute_scores<Plan>(queries, lane_rows, staged_keys + current, scores);
        if (scales_early) {
          scale_and_mask<Plan, Element>(call, addresses.mask, mask, query + lane / 4, key, scores);
        }
        if (key + Plan::keys > seen_by_all) hide<Plan>(call, query + lane / 4, key, scores);
        core_corrections<Plan> corrections;
        weigh<Plan>(factor, state, scores, corrections);
        correct<Plan>(corrections, state);
        add_weighted<Plan>(scores, staged_values + current, state);
      }
      if (has_next) {
        await_copies();
        __syncthreads();
        current = buffer - current;
      }
    }
    write_results<Plan>(call,
                        static_cast<Element*>(addresses.y) + image * call.y[0] + head * call.y[1],
                        query, vectors.y, warp_rows, state);
  }
#endif
}

/// The plans of kernels. Small ones have more blocks for few queries.
template <int Size>
struct core_plans {
  using large = core_plan<Size, Size == 64 ? 2 : 1, 64, Size != 64, 2>;
  using small = core_plan<Size, 1, 64, true, Size == 64 ? 3 : 2>;
};

/// Calls `run` with the kernel for elements of a type and with its plan.
///@{
template <class Plan, class Run>
int with_core_kernel(storage type, const Run& run) {
  if (type == storage::f16) return run(core_attention_kernel<__half, Plan>, Plan{});
  return run(core_attention_kernel<__nv_bfloat16, Plan>, Plan{});
}
template <class Run>
int with_core_kernel(storage type, std::int64_t size, bool is_small, const Run& run) {
  if (size <= 64) {
    if (is_small) return with_core_kernel<core_plans<64>::small>(type, run);
    return with_core_kernel<core_plans<64>::large>(type, run);
  }
  if (is_small) return with_core_kernel<core_plans<128>::small>(type, run);
  return with_core_kernel<core_plans<128>::large>(type, run);
}
///@}

/// The heads whose keys and values fit in a cache of the second level, if the queries of a head
/// differ in their work.
[[nodiscard]] core_order order_of(const attention_call& call) {
  constexpr std::int64_t most_bytes = 16 << 20;
  if (!call.is_causal) return {1};
  const std::int64_t row_bytes = 2 * (call.key_size + call.value_size);
  const std::int64_t rows = most_bytes / (row_bytes == 0 ? 1 : row_bytes);
  const std::int64_t heads = rows / (call.keys == 0 ? 1 : call.keys) * call.sharing;
  return {heads < 1 ? 1 : heads};
}

}  // namespace

int load_tensor_core_attention() {
  int status = cudaSuccess;
  for (const auto type : {storage::f16, storage::bf16}) {
    for (const std::int64_t size : {64, 128}) {
      for (const bool is_small : {false, true}) {
        if (status != cudaSuccess) return status;
        status = with_core_kernel(type, size, is_small, [](auto* kernel, auto plan) -> int {
          return cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize,
                                      decltype(plan)::staged_bytes);
        });
      }
    }
  }
  return status;
}

int launch_tensor_core_attention(const attention_call& call, const attention_addresses& addresses,
                                 int processors, native_stream* stream) {
  const std::int64_t heads = call.batch * call.heads;
  const core_vectors vectors{has_row_vectors(addresses.q, call.q, call.key_size),
                             has_row_vectors(addresses.k, call.k, call.key_size),
                             has_row_vectors(addresses.v, call.v, call.value_size),
                             has_row_vectors(addresses.y, call.y, call.value_size)};
  const auto size = call.key_size < call.value_size ? call.value_size : call.key_size;
  const auto large_blocks = heads * ((call.queries - 1) / 128 + 1);
  const bool is_small = call.queries <= 64 || large_blocks < processors;
  return with_core_kernel(call.type, size, is_small, [&](auto* kernel, auto plan) -> int {
    using core = decltype(plan);
    const std::int64_t blocks = heads * ((call.queries - 1) / core::queries + 1);
    const auto grid = static_cast<unsigned>(blocks < most_core_blocks ? blocks : most_core_blocks);
    kernel<<<grid, core_threads, core::staged_bytes, reinterpret_cast<cudaStream_t>(stream)>>>(
        call, addresses, vectors, order_of(call));
    return cudaGetLastError();
  });
}

}  // namespace sluice::operations
