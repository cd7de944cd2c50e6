// SPDX-License-Identifier: Apache-2.0
#include "operations/dnn/attention_weights.cuh"
#include "operations/dnn/warpgroup_products.cuh"

#include <cuda_runtime.h>

#include <cstdint>

// Attention of 16-bit numbers on the tensor cores of compute capability 9.0. A warpgroup has the
// scores and the sums of 64 queries in registers. While it weighs the scores of a step, the tensor
// cores add the values of the step before: Shah et al., "FlashAttention-3", 2024.
namespace sluice::operations {

/// How a kernel divides its work: rows have up to `Size` elements, a block has `Groups` warpgroups,
/// and a step `Keys` keys. `Blocks` blocks fit on a multiprocessor.
template <int Size, int Groups, int Keys, int Blocks>
struct group_plan {
  static constexpr int size = Size;
  static constexpr int row = Size + 8;  // of staged results
  static constexpr int tiles = 1;
  static constexpr int warp_queries = 16;
  static constexpr int group_queries = 64;
  static constexpr int queries = Groups * group_queries;
  static constexpr int consumers = Groups * 128;
  static constexpr int threads = consumers + 128;
  static constexpr int registers = 65536 / (threads * Blocks) / 8 * 8;  // at the beginning
  static constexpr int copy_registers = 32;
  static constexpr int most_registers =
      (registers * threads - 128 * copy_registers) / consumers / 8 * 8;
  static constexpr int compute_registers = most_registers < 240 ? most_registers : 240;
  static constexpr int keys = Keys;
  static constexpr int blocks = Blocks;
  static constexpr int stages = Size * Keys * Blocks <= 3 * 64 * 64 ? 3 : 2;  // of keys, of values
  static constexpr int barriers = 4 * stages;
  /// The queries, the keys and the values of some steps, the results, and the barriers.
  static constexpr int staged_bytes =
      2 * (Size * (queries + 2 * stages * Keys) + row * queries) + 8 * barriers;
};

namespace {

#if defined(SLUICE_HAS_WARPGROUP_PRODUCTS)

/// Copies `Rows` rows from `begin` on with `Size` elements each, and zeros where there are none, to
/// panels of 64 columns, whose rows of 128 bytes have their vectors swizzled.
template <int Threads, int Rows, int Size, class Element>
__device__ inline void copy_panels(Element* target, const core_rows<Element>& source, int begin,
                                   int thread) {
  constexpr int vectors = Size / 8;
  constexpr int pass = Threads / vectors;  // rows that are copied at once
  static_assert(Threads % vectors == 0 && Rows % pass == 0);
  const int r = thread / vectors;
  const int e = thread % vectors;
  const int rows = 8 * e < source.size ? source.count - begin : 0;
  const Element* position = source.first + (begin + r) * source.row + 8 * e;
  const std::int64_t distance = pass * source.row;
#pragma unroll 4
  for (int step = 0; step < Rows / pass; ++step) {
    const int row = r + step * pass;
    copy_later(target + (e / 8 * Rows + row) * 64 + (e % 8 ^ row % 8) * 8, position, row < rows);
    position += distance;
  }
}

/// A stage of a ring, and the parity of its phase.
template <class Plan>
struct ring_position {
  int stage = 0;
  std::uint32_t parity = 0;
  __device__ void advance() {
    ++stage;
    if (stage == Plan::stages) {
      stage = 0;
      parity ^= 1;
    }
  }
};

/// Begins scores = queries · keys, of a step.
template <class Plan, class Element>
__device__ inline void begin_scores(std::uint64_t queries, std::uint64_t keys,
                                    core_scores<Plan>& scores) {
  pin(scores[0]);
  begin_products();
#pragma unroll
  for (int step = 0; step < Plan::size / 16; ++step) {
    const int panel = step / 4;
    const int column = step % 4 * 32;
    multiply_shared(Element{}, scores[0],
                    later_matrix(queries, panel * Plan::queries * 128 + column),
                    later_matrix(keys, panel * Plan::keys * 128 + column), step > 0);
  }
  end_products();
}

template <class Plan>
using group_weights = std::uint32_t[Plan::keys / 16][4];

/// Begins sums += weights · values, of a step.
template <class Plan, class Element>
__device__ inline void begin_sums(const group_weights<Plan>& weights, std::uint64_t values,
                                  core_state<Plan>& state) {
  pin(state.sums[0]);
  begin_products();
#pragma unroll
  for (int step = 0; step < Plan::keys / 16; ++step) {
    multiply_add_shared(Element{}, state.sums[0], weights[step],
                        later_matrix(values, 16 * step * 128));
  }
  end_products();
}

#endif

/// The queries of a block. The grid has the queries and the heads of an image, and the images. In a
/// causal attention the heads come first, and the blocks with the most keys.
struct block_queries {
  std::int64_t image;
  std::int64_t head;
  int first;
};
template <class Plan>
[[nodiscard]] __device__ inline block_queries queries_of_block(const attention_call& call) {
  const auto x = static_cast<int>(blockIdx.x);
  const auto y = static_cast<int>(blockIdx.y);
  const int tile = call.is_causal ? static_cast<int>(gridDim.y) - 1 - y : x;
  return {blockIdx.z, call.is_causal ? x : y, tile * Plan::queries};
}

/// Each block computes the results of `Plan::queries` queries of a head. Its last warpgroup copies
/// the keys and the values, while the others compute.
template <class Element, class Plan>
__global__ void __launch_bounds__(Plan::threads, Plan::blocks)
    group_attention_kernel(const __grid_constant__ attention_call call,
                           const __grid_constant__ attention_addresses addresses,
                           bool has_vectors) {
#if defined(SLUICE_HAS_WARPGROUP_PRODUCTS)
  extern __shared__ __align__(1024) unsigned char staged_bytes[];
  constexpr int buffer = Plan::keys * Plan::size;
  auto* const staged_queries = reinterpret_cast<Element*>(staged_bytes);
  Element* const staged_keys = staged_queries + Plan::queries * Plan::size;
  Element* const staged_values = staged_keys + Plan::stages * buffer;
  Element* const staged_results = staged_values + Plan::stages * buffer;
  auto* const full_keys =
      reinterpret_cast<std::uint64_t*>(staged_results + Plan::queries * Plan::row);
  std::uint64_t* const full_values = full_keys + Plan::stages;
  std::uint64_t* const free_keys = full_values + Plan::stages;
  std::uint64_t* const free_values = free_keys + Plan::stages;
  const int thread = static_cast<int>(threadIdx.x);
  const int lane = thread % 32;
  const int warp = __shfl_sync(0xffffffffU, thread / 32, 0);
  const int group = warp / 4;
  if (thread == 0) {
    for (int i = 0; i < Plan::stages; ++i) {
      prepare_barrier(full_keys + i, 128);
      prepare_barrier(full_values + i, 128);
      prepare_barrier(free_keys + i, Plan::consumers / 32);
      prepare_barrier(free_values + i, Plan::consumers / 32);
    }
  }
  // The maximum may be that of scaled scores only if scaling keeps the order.
  const bool scales_early = call.has_mask || !(call.scale > 0.0f && call.scale < 1e30f);
  const float factor = scales_early ? log2_e : call.scale * log2_e;
  ring_position<Plan> at_keys;
  const auto rows = queries_of_block<Plan>(call);
  const int first = rows.first;
  const int end = min(first + Plan::queries, static_cast<int>(call.queries));
  const auto visible = static_cast<int>(call.visible_keys(end));
  __syncthreads();

  if (warp >= Plan::consumers / 32) {
    asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(Plan::copy_registers));
    const std::int64_t shared = divide(rows.head, call.sharing).value;
    const core_rows<Element> k{
        static_cast<const Element*>(addresses.k) + rows.image * call.k[0] + shared * call.k[1],
        call.k[2], call.k[3], visible, static_cast<int>(call.key_size)};
    const core_rows<Element> v{
        static_cast<const Element*>(addresses.v) + rows.image * call.v[0] + shared * call.v[1],
        call.v[2], call.v[3], visible, static_cast<int>(call.value_size)};
#pragma unroll 1
    for (int key = 0; key < visible; key += Plan::keys) {
      await_phase(free_keys + at_keys.stage, at_keys.parity ^ 1);
      copy_panels<128, Plan::keys, Plan::size>(staged_keys + at_keys.stage * buffer, k, key,
                                               thread - Plan::consumers);
      arrive_after_copies(full_keys + at_keys.stage);
      await_phase(free_values + at_keys.stage, at_keys.parity ^ 1);
      copy_panels<128, Plan::keys, Plan::size>(staged_values + at_keys.stage * buffer, v, key,
                                               thread - Plan::consumers);
      arrive_after_copies(full_values + at_keys.stage);
      at_keys.advance();
    }
    await_copies();
    return;
  }

  asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(Plan::compute_registers));
  ring_position<Plan> at_values;
  const int query = first + warp * Plan::warp_queries;
  // What all queries of the warp see, and what some of the warpgroup do.
  const auto seen_by_all = static_cast<int>(call.visible_keys(query + 1));
  const int group_first = first + group * Plan::group_queries;
  const int seen_by_some =
      group_first < end
          ? static_cast<int>(call.visible_keys(min(group_first + Plan::group_queries, end)))
          : 0;
  if (visible > 0) {
    const core_rows<Element> q{
        static_cast<const Element*>(addresses.q) + rows.image * call.q[0] + rows.head * call.q[1],
        call.q[2], call.q[3], static_cast<int>(call.queries), static_cast<int>(call.key_size)};
    copy_panels<Plan::consumers, Plan::queries, Plan::size>(staged_queries, q, first, thread);
    await_copies();
    publish_copies();
    asm volatile("bar.sync 1, %0;" ::"n"(Plan::consumers) : "memory");
  }
  const std::uint64_t all_rows =
      matrix_descriptor(staged_queries + group * Plan::group_queries * 64, 16);
  const std::uint64_t all_keys = matrix_descriptor(staged_keys, 16);
  const std::uint64_t all_values = matrix_descriptor(staged_values, Plan::keys * 128);

  core_state<Plan> state;
  state.maxima[0][0] = state.maxima[0][1] = -attention_call::infinite_score;
  core_scores<Plan> scores;
  group_weights<Plan> weights;
  core_corrections<Plan> corrections;
  const auto finish_scores = [&](int key) {
    if (scales_early) {
      scale_and_mask<Plan, Element>(call, addresses.mask,
                                    rows.image * call.mask[0] + rows.head * call.mask[1],
                                    query + lane / 4, key, scores);
    }
    if (key + Plan::keys > seen_by_all) hide<Plan>(call, query + lane / 4, key, scores);
    weigh<Plan>(factor, state, scores, corrections);
  };
  const auto pack = [&] {
#pragma unroll
    for (int step = 0; step < Plan::keys / 16; ++step) {
      pack_weights<Element>(scores[0][2 * step], scores[0][2 * step + 1], weights[step]);
    }
  };
  const auto release = [&](std::uint64_t* barriers, ring_position<Plan>& position) {
    __syncwarp();
    if (lane == 0) arrive(barriers + position.stage);
    position.advance();
  };

  int key = 0;
  if (seen_by_some > 0) {
    await_phase(full_keys + at_keys.stage, at_keys.parity);
    publish_copies();
    begin_scores<Plan, Element>(all_rows, later_matrix(all_keys, at_keys.stage * buffer * 2),
                                scores);
    await_products<0>();
    pin(scores[0]);
    release(free_keys, at_keys);
    finish_scores(0);
    pack();
#pragma unroll 1
    for (; key + Plan::keys < seen_by_some; key += Plan::keys) {
      await_phase(full_keys + at_keys.stage, at_keys.parity);
      await_phase(full_values + at_values.stage, at_values.parity);
      publish_copies();
      begin_scores<Plan, Element>(all_rows, later_matrix(all_keys, at_keys.stage * buffer * 2),
                                  scores);
      begin_sums<Plan, Element>(weights, later_matrix(all_values, at_values.stage * buffer * 2),
                                state);
      await_products<1>();
      pin(scores[0]);
      release(free_keys, at_keys);
      finish_scores(key + Plan::keys);
      // The branch keeps the wait after the weights, which are computed meanwhile.
      if (corrections.any) {
        await_products<0, 1>();
        pin(state.sums[0]);
        correct<Plan>(corrections, state);
      } else {
        await_products<0, 2>();
        pin(state.sums[0]);
      }
      release(free_values, at_values);
      pack();
    }
    await_phase(full_values + at_values.stage, at_values.parity);
    publish_copies();
    begin_sums<Plan, Element>(weights, later_matrix(all_values, at_values.stage * buffer * 2),
                              state);
    await_products<0>();
    pin(state.sums[0]);
    release(free_values, at_values);
    key += Plan::keys;
  }
  // Other warpgroups go on.
  for (; key < visible; key += Plan::keys) {
    await_phase(full_keys + at_keys.stage, at_keys.parity);
    release(free_keys, at_keys);
    await_phase(full_values + at_values.stage, at_values.parity);
    release(free_values, at_values);
  }
  write_results<Plan>(
      call, static_cast<Element*>(addresses.y) + rows.image * call.y[0] + rows.head * call.y[1],
      query, has_vectors, staged_results + warp * Plan::warp_queries * Plan::row, state);
#endif
}

/// Calls `run` with the kernel for elements of a type and with its plan, for rows of at most `size`
/// elements and for blocks of this many warpgroups.
///@{
template <class Plan, class Run>
int with_group_kernel(storage type, const Run& run) {
  if (type == storage::f16) return run(group_attention_kernel<__half, Plan>, Plan{});
  return run(group_attention_kernel<__nv_bfloat16, Plan>, Plan{});
}
template <class Run>
int with_group_kernel(storage type, std::int64_t size, int groups, const Run& run) {
  if (size <= 64) {
    if (groups == 3) return with_group_kernel<group_plan<64, 3, 128, 1>>(type, run);
    return with_group_kernel<group_plan<64, 1, 64, 3>>(type, run);
  }
  if (groups == 3) return with_group_kernel<group_plan<128, 3, 64, 1>>(type, run);
  if (groups == 2) return with_group_kernel<group_plan<128, 2, 128, 1>>(type, run);
  return with_group_kernel<group_plan<128, 1, 64, 2>>(type, run);
}
///@}

}  // namespace

int load_warpgroup_attention() {
  int status = cudaSuccess;
  for (const auto type : {storage::f16, storage::bf16}) {
    for (const std::int64_t size : {64, 128}) {
      for (const int groups : {1, 2, 3}) {
        if (status != cudaSuccess) return status;
        status = with_group_kernel(type, size, groups, [](auto* kernel, auto plan) -> int {
          return cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize,
                                      decltype(plan)::staged_bytes);
        });
      }
    }
  }
  return status;
}

bool has_warpgroup_attention() {
  // Kernels for other devices are empty.
  constexpr int most_registers_of_none = 48;
  cudaFuncAttributes attributes;
  return cudaFuncGetAttributes(&attributes,
                               group_attention_kernel<__half, group_plan<64, 3, 128, 1>>) ==
             cudaSuccess &&
         attributes.numRegs > most_registers_of_none;
}

int launch_warpgroup_attention(const attention_call& call, const attention_addresses& addresses,
                               int processors, native_stream* stream) {
  const std::int64_t heads = call.batch * call.heads;
  const bool has_vectors = has_row_vectors(addresses.y, call.y, call.value_size);
  const auto size = call.key_size < call.value_size ? call.value_size : call.key_size;
  const auto blocks = [&](std::int64_t queries) {
    return heads * ((call.queries - 1) / queries + 1);
  };
  constexpr std::int64_t most_rows = 65535;  // of a grid
  if (call.batch > most_rows || call.heads > most_rows || blocks(64) / heads > most_rows ||
      !has_row_vectors(addresses.q, call.q, call.key_size) ||
      !has_row_vectors(addresses.k, call.k, call.key_size) ||
      !has_row_vectors(addresses.v, call.v, call.value_size)) {
    return launch_tensor_core_attention(call, addresses, processors, stream);
  }
  // Large blocks read keys and values less often; small ones fill the last round of blocks.
  const int groups = blocks(192) >= 4 * processors            ? 3
                     : size > 64 && blocks(128) >= processors ? 2
                                                              : 1;
  return with_group_kernel(call.type, size, groups, [&](auto* kernel, auto plan) -> int {
    using group = decltype(plan);
    const auto tiles = static_cast<unsigned>((call.queries - 1) / group::queries + 1);
    const auto all = static_cast<unsigned>(call.heads);
    const dim3 grid(call.is_causal ? all : tiles, call.is_causal ? tiles : all,
                    static_cast<unsigned>(call.batch));
    kernel<<<grid, group::threads, group::staged_bytes, reinterpret_cast<cudaStream_t>(stream)>>>(
        call, addresses, has_vectors);
    return cudaGetLastError();
  });
}

}  // namespace sluice::operations
