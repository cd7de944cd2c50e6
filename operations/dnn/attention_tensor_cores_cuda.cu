// SPDX-License-Identifier: Apache-2.0
#include "operations/dnn/attention_call.hpp"
#include "operations/elementwise/strided_map.hpp"
#include "operations/elementwise/vectors.cuh"

#include <cuda_runtime.h>

#include <cstdint>

// Attention of 16-bit numbers on tensor cores, with products that are summed in f32. A warp has the
// scores and the sums of its queries in registers: Dao, "FlashAttention-2", 2023. The layouts of
// the fragments are those of mma.m16n8k16 and ldmatrix in the manual of PTX.
namespace sluice::operations {
namespace {

constexpr int core_threads = 128;
constexpr int core_queries = 64;  // of a block: 16 of each warp
constexpr std::int64_t most_core_blocks = 1 << 30;

#if !defined(__CUDA_ARCH__) || __CUDA_ARCH__ >= 800

constexpr int core_keys = 64;  // of a step
constexpr float log2_e = 1.44269504F;

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

/// The transposes of four 8 × 8 matrices. Lane 8 · i + r has the address of row r of matrix i.
__device__ inline void load_transposed(std::uint32_t (&result)[4], const void* row) {
  const auto address = static_cast<std::uint32_t>(__cvta_generic_to_shared(row));
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0,%1,%2,%3}, [%4];"
               : "=r"(result[0]), "=r"(result[1]), "=r"(result[2]), "=r"(result[3])
               : "r"(address)
               : "memory");
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
  std::int64_t count;    // of rows
  int size;              // elements of a row
};

/// Stages rows [begin, begin + 64) with `padded` elements each, and zeros where there are none. A
/// copy may last until `await_copies`.
template <class Element, int Row>
__device__ inline void stage(Element* target, const core_rows<Element>& source, std::int64_t begin,
                             int padded, bool has_vectors) {
  const int thread = static_cast<int>(threadIdx.x);
  if (has_vectors) {
    const int vectors = padded / 8;
    for (int i = thread; i < core_keys * vectors; i += core_threads) {
      const int r = i / vectors;
      const int e = i % vectors * 8;
      const bool exists = begin + r < source.count && e < source.size;
      copy_later(target + r * Row + e, source.first + (exists ? (begin + r) * source.row + e : 0),
                 exists);
    }
    return;
  }
  for (int i = thread; i < core_keys * padded; i += core_threads) {
    const int r = i / padded;
    const int e = i % padded;
    const bool exists = begin + r < source.count && e < source.size;
    Element value;
    put_f32(value, 0.0f);
    if (exists) value = source.first[(begin + r) * source.row + e * source.element];
    target[r * Row + e] = value;
  }
}

/// The neighbouring elements at an even position.
template <class Element>
[[nodiscard]] __device__ inline std::uint32_t pair_at(const Element* position) {
  return *reinterpret_cast<const std::uint32_t*>(position);
}

/// The queries of a warp, and what has been summed for them. Lane 4 · g + t has rows g and g + 8,
/// and of each eight columns 2t and 2t + 1.
template <class Element, int Size>
struct core_state {
  std::uint32_t queries[Size / 16][4];
  float sums[Size / 8][4] = {};
  float maxima[2] = {-attention_call::infinite_score, -attention_call::infinite_score};
  float totals[2] = {};
};

/// Reads the queries of a warp from staged rows.
template <class Element, int Size, int Row>
__device__ inline void load_queries(const Element* rows, int padded,
                                    core_state<Element, Size>& state) {
  const int lane = static_cast<int>(threadIdx.x) % 32;
  const int warp = static_cast<int>(threadIdx.x) / 32;
  const Element* const first = rows + (16 * warp + lane / 4) * Row + lane % 4 * 2;
#pragma unroll
  for (int step = 0; step < Size / 16; ++step) {
    if (16 * step >= padded) break;
    const Element* const position = first + 16 * step;
    state.queries[step][0] = pair_at(position);
    state.queries[step][1] = pair_at(position + 8 * Row);
    state.queries[step][2] = pair_at(position + 8);
    state.queries[step][3] = pair_at(position + 8 * Row + 8);
  }
}

/// scores = queries · keys, of a step.
template <class Element, int Size, int Row>
__device__ inline void compute_scores(const core_state<Element, Size>& state, const Element* keys,
                                      int padded, float (&scores)[core_keys / 8][4]) {
  const int lane = static_cast<int>(threadIdx.x) % 32;
  const Element* const first = keys + lane / 4 * Row + lane % 4 * 2;
#pragma unroll
  for (int step = 0; step < Size / 16; ++step) {
    if (16 * step >= padded) break;
#pragma unroll
    for (int n = 0; n < core_keys / 8; ++n) {
      const Element* const position = first + 8 * n * Row + 16 * step;
      multiply_add(Element{}, scores[n], state.queries[step], pair_at(position),
                   pair_at(position + 8));
    }
  }
}

/// Turns scores into weights and corrects what has been summed. `query` is the first row of the
/// lane, `key` the first column of the step.
template <class Element, int Size>
__device__ inline void weigh(const attention_call& call, const void* masks, std::int64_t mask,
                             std::int64_t query, std::int64_t key, core_state<Element, Size>& state,
                             float (&scores)[core_keys / 8][4]) {
  const int column = static_cast<int>(threadIdx.x) % 4 * 2;
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    const std::int64_t row = query + 8 * half;
    const std::int64_t last =
        row < call.queries ? call.visible_keys(row + 1) : static_cast<std::int64_t>(0);
    float largest = state.maxima[half];
    // Most steps hide nothing.
    const bool hides = call.has_mask || key + core_keys > last;
#pragma unroll
    for (int n = 0; n < core_keys / 8; ++n) {
#pragma unroll
      for (int i = 0; i < 2; ++i) {
        float& score = scores[n][2 * half + i];
        score *= call.scale;
        if (hides) {
          const std::int64_t position = key + 8 * n + column + i;
          if (position >= last) {
            score = -attention_call::infinite_score;
          } else if (call.has_mask) {
            score = call.masked(score, masks, mask + row * call.mask[2] + position * call.mask[3]);
          }
        }
        largest = fmaxf(largest, score);
      }
    }
    largest = fmaxf(largest, __shfl_xor_sync(0xffffffffU, largest, 1));
    largest = fmaxf(largest, __shfl_xor_sync(0xffffffffU, largest, 2));
    // Scores of -infinity have the weight 0 also where there are no others.
    const float shift = largest == -attention_call::infinite_score ? 0.0f : largest;
    const float correction = exp2f((state.maxima[half] - shift) * log2_e);
    state.maxima[half] = largest;
    state.totals[half] *= correction;
#pragma unroll
    for (int n = 0; n < core_keys / 8; ++n) {
#pragma unroll
      for (int i = 0; i < 2; ++i) {
        float& score = scores[n][2 * half + i];
        score = exp2f((score - shift) * log2_e);
        state.totals[half] += score;
      }
    }
#pragma unroll
    for (int n = 0; n < Size / 8; ++n) {
      state.sums[n][2 * half] *= correction;
      state.sums[n][2 * half + 1] *= correction;
    }
  }
}

/// sums += weights · values, of a step. The scores of two blocks of eight columns are the fragment
/// of 16 columns of the weights.
template <class Element, int Size, int Row>
__device__ inline void add_weighted(const float (&weights)[core_keys / 8][4], const Element* values,
                                    int padded, core_state<Element, Size>& state) {
  const int lane = static_cast<int>(threadIdx.x) % 32;
  const Element* const first = values + lane % 16 * Row + lane / 16 * 8;
#pragma unroll
  for (int step = 0; step < core_keys / 16; ++step) {
    const float(&left)[4] = weights[2 * step];
    const float(&right)[4] = weights[2 * step + 1];
    const std::uint32_t factors[4] = {
        packed_pair(Element{}, left[0], left[1]), packed_pair(Element{}, left[2], left[3]),
        packed_pair(Element{}, right[0], right[1]), packed_pair(Element{}, right[2], right[3])};
#pragma unroll
    for (int n = 0; n < Size / 16; ++n) {
      if (16 * n >= padded) break;
      std::uint32_t columns[4];
      load_transposed(columns, first + 16 * step * Row + 16 * n);
      multiply_add(Element{}, state.sums[2 * n], factors, columns[0], columns[1]);
      multiply_add(Element{}, state.sums[2 * n + 1], factors, columns[2], columns[3]);
    }
  }
}

#endif

/// What of memory can be read in vectors of 16 bytes, and what written in pairs.
struct core_vectors {
  bool q;
  bool k;
  bool v;
  bool y;
};

/// Each block computes 64 queries of a head, whose rows have up to `Size` elements. While it
/// computes with the keys or the values of a step, it copies the others.
template <class Element, int Size>
__global__ void __launch_bounds__(core_threads)
    core_attention_kernel(const __grid_constant__ attention_call call,
                          const __grid_constant__ attention_addresses addresses,
                          core_vectors vectors) {
#if !defined(__CUDA_ARCH__) || __CUDA_ARCH__ >= 800
  constexpr int row_size = Size + 8;  // whose rows begin in different banks
  __shared__ alignas(16) Element staged_keys[core_keys * row_size];
  __shared__ alignas(16) Element staged_values[core_keys * row_size];
  const int lane = static_cast<int>(threadIdx.x) % 32;
  const int warp = static_cast<int>(threadIdx.x) / 32;
  const int key_size = static_cast<int>(call.key_size);
  const int value_size = static_cast<int>(call.value_size);
  const int padded_key = (key_size + 15) / 16 * 16;
  const int padded_value = (value_size + 15) / 16 * 16;
  const std::int64_t tiles = (call.queries - 1) / core_queries + 1;
  const std::int64_t blocks = call.batch * call.heads * tiles;

  for (std::int64_t block = blockIdx.x; block < blocks; block += gridDim.x) {
    const auto by_tile = divide(block, tiles);
    const auto by_head = divide(by_tile.value, call.heads);
    const std::int64_t image = by_head.value;
    const std::int64_t head = by_head.remainder;
    const std::int64_t shared = divide(head, call.sharing).value;
    const std::int64_t first = by_tile.remainder * core_queries;
    const std::int64_t end =
        first + core_queries < call.queries ? first + core_queries : call.queries;
    const std::int64_t visible = call.visible_keys(end);
    const core_rows<Element> q{
        static_cast<const Element*>(addresses.q) + image * call.q[0] + head * call.q[1], call.q[2],
        call.q[3], call.queries, key_size};
    const core_rows<Element> k{
        static_cast<const Element*>(addresses.k) + image * call.k[0] + shared * call.k[1],
        call.k[2], call.k[3], visible, key_size};
    const core_rows<Element> v{
        static_cast<const Element*>(addresses.v) + image * call.v[0] + shared * call.v[1],
        call.v[2], call.v[3], visible, value_size};
    const std::int64_t mask = image * call.mask[0] + head * call.mask[1];
    const std::int64_t query = first + 16 * warp + lane / 4;

    core_state<Element, Size> state;
    if (visible > 0) {
      __syncthreads();
      stage<Element, row_size>(staged_keys, q, first, padded_key, vectors.q);
      await_copies();
      __syncthreads();
      load_queries<Element, Size, row_size>(staged_keys, padded_key, state);
      __syncthreads();
      stage<Element, row_size>(staged_keys, k, 0, padded_key, vectors.k);
    }
    for (std::int64_t key = 0; key < visible; key += core_keys) {
      await_copies();
      __syncthreads();  // the keys are there, and the values are free
      stage<Element, row_size>(staged_values, v, key, padded_value, vectors.v);
      float scores[core_keys / 8][4] = {};
      compute_scores<Element, Size, row_size>(state, staged_keys, padded_key, scores);
      weigh(call, addresses.mask, mask, query, key, state, scores);
      await_copies();
      __syncthreads();  // the values are there, and the keys are free
      if (key + core_keys < visible) {
        stage<Element, row_size>(staged_keys, k, key + core_keys, padded_key, vectors.k);
      }
      add_weighted<Element, Size, row_size>(scores, staged_values, padded_value, state);
    }

    auto* const results = static_cast<Element*>(addresses.y) + image * call.y[0] + head * call.y[1];
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      float total = state.totals[half];
      total += __shfl_xor_sync(0xffffffffU, total, 1);
      total += __shfl_xor_sync(0xffffffffU, total, 2);
      const std::int64_t row = query + 8 * half;
      if (row >= call.queries) continue;
      const float factor = total == 0.0f ? 0.0f : 1.0f / total;
      Element* const target = results + row * call.y[2];
#pragma unroll
      for (int n = 0; n < Size / 8; ++n) {
        const int e = 8 * n + lane % 4 * 2;
        const float low = state.sums[n][2 * half] * factor;
        const float high = state.sums[n][2 * half + 1] * factor;
        if (vectors.y && e < value_size) {
          *reinterpret_cast<std::uint32_t*>(target + e) = packed_pair(Element{}, low, high);
        } else {
          if (e < value_size) put_f32(target[e * call.y[3]], low);
          if (e + 1 < value_size) put_f32(target[(e + 1) * call.y[3]], high);
        }
      }
    }
  }
#endif
}

/// Whether the rows of a head are whole vectors of `bytes` bytes.
[[nodiscard]] bool has_row_vectors(const void* memory, const std::int64_t (&strides)[4],
                                   std::int64_t size, std::int64_t bytes) {
  const std::int64_t elements = bytes / 2;
  return reinterpret_cast<std::uintptr_t>(memory) % static_cast<std::uintptr_t>(bytes) == 0 &&
         strides[3] == 1 && size % elements == 0 && strides[0] % elements == 0 &&
         strides[1] % elements == 0 && strides[2] % elements == 0;
}

/// Calls `run` with the kernel for elements of a type and rows of at most `size` elements.
template <class Run>
int with_core_kernel(storage type, std::int64_t size, const Run& run) {
  if (type == storage::f16) {
    if (size <= 64) return run(core_attention_kernel<__half, 64>);
    return run(core_attention_kernel<__half, 128>);
  }
  if (size <= 64) return run(core_attention_kernel<__nv_bfloat16, 64>);
  return run(core_attention_kernel<__nv_bfloat16, 128>);
}

}  // namespace

int load_tensor_core_attention() {
  int status = cudaSuccess;
  for (const auto type : {storage::f16, storage::bf16}) {
    for (const std::int64_t size : {64, 128}) {
      if (status != cudaSuccess) return status;
      status = with_core_kernel(type, size, [](auto* kernel) -> int {
        cudaFuncAttributes attributes;
        return cudaFuncGetAttributes(&attributes, kernel);
      });
    }
  }
  return status;
}

int launch_tensor_core_attention(const attention_call& call, const attention_addresses& addresses,
                                 native_stream* stream) {
  const std::int64_t blocks = call.batch * call.heads * ((call.queries - 1) / core_queries + 1);
  const auto grid = static_cast<unsigned>(blocks < most_core_blocks ? blocks : most_core_blocks);
  const core_vectors vectors{has_row_vectors(addresses.q, call.q, call.key_size, 16),
                             has_row_vectors(addresses.k, call.k, call.key_size, 16),
                             has_row_vectors(addresses.v, call.v, call.value_size, 16),
                             has_row_vectors(addresses.y, call.y, call.value_size, 4)};
  const auto size = call.key_size < call.value_size ? call.value_size : call.key_size;
  return with_core_kernel(call.type, size, [&](auto* kernel) -> int {
    kernel<<<grid, core_threads, 0, reinterpret_cast<cudaStream_t>(stream)>>>(call, addresses,
                                                                              vectors);
    return cudaGetLastError();
  });
}

}  // namespace sluice::operations
