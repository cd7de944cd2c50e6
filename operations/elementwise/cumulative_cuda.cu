// SPDX-License-Identifier: Apache-2.0
#include "operations/elementwise/cumulative_call.hpp"
#include "operations/elementwise/launch_map.hpp"
#include "operations/elementwise/vectors.cuh"

#include <cuda_runtime.h>

#include <cstdint>
#include <cstring>

// A row is computed in tiles of a few elements for each thread of a group. If there are too few
// rows for a GPU, each is divided into parts: one kernel computes the total of each part, one the
// totals of all parts before each one, and one the results.
namespace sluice::operations {
namespace {

constexpr unsigned threads_per_block = 256;
constexpr unsigned warp = 32;
constexpr std::int64_t max_blocks = 16384;
/// The elements of a thread in a tile.
constexpr int items = 8;

/// Calls `exchange` with each word of a value.
template <class Value, class Exchange>
[[nodiscard]] __device__ Value exchanged(const Value& value, const Exchange& exchange) {
  static_assert(sizeof(Value) % sizeof(unsigned) == 0);
  unsigned words[sizeof(Value) / sizeof(unsigned)];
  memcpy(words, &value, sizeof value);
  for (unsigned& word : words) word = exchange(word);
  Value other;
  memcpy(&other, words, sizeof other);
  return other;
}

/// The values of the threads of a group before each one, and of all of them.
template <class Value>
struct scanned {
  Value before;
  Value all;
};

/// Scans the values of groups of `lanes` threads: a power of two up to 32, or all 256 of the block.
/// All threads of the block call it.
template <class Accumulation>
[[nodiscard]] __device__ scanned<typename Accumulation::value> scan_group(
    const Accumulation& accumulation, typename Accumulation::value total, unsigned lanes) {
  using value = typename Accumulation::value;
  const unsigned width = lanes < warp ? lanes : warp;
  const unsigned lane = threadIdx.x % width;
  const auto from_before = [&](unsigned distance) {
    return exchanged(total, [&](unsigned word) {
      return __shfl_up_sync(~0U, word, distance, static_cast<int>(width));
    });
  };
#pragma unroll 1
  for (unsigned distance = 1; distance < width; distance *= 2) {
    const value other = from_before(distance);
    if (lane >= distance) total = accumulation.combine(other, total);
  }
  value before = from_before(1);
  if (lane == 0) before = accumulation.identity();
  if (lanes <= warp) {
    return {before, exchanged(total, [&](unsigned word) {
              return __shfl_sync(~0U, word, static_cast<int>(width) - 1, static_cast<int>(width));
            })};
  }
  // Memory for any type: a variable of a template parameter's type would need its constructor.
  alignas(16) __shared__ unsigned char memory[threads_per_block / warp * sizeof(value)];
  auto* const of_warps = reinterpret_cast<value*>(memory);
  __syncthreads();
  if (lane == warp - 1) of_warps[threadIdx.x / warp] = total;
  __syncthreads();
  value all = accumulation.identity();
  value before_warp = all;
#pragma unroll 1
  for (unsigned i = 0; i < threads_per_block / warp; ++i) {
    if (i == threadIdx.x / warp) before_warp = all;
    all = accumulation.combine(all, of_warps[i]);
  }
  return {accumulation.combine(before_warp, before), all};
}

/// Part `unit / rows` of row `unit % rows`.
struct part_of_row {
  std::int64_t x;  ///< the first element of the row
  std::int64_t y;
  std::int64_t begin;
  std::int64_t end;

  __device__ part_of_row(const cumulative_call& call, std::int64_t unit) {
    const auto split = divide(unit, call.rows.count);
    const auto row = position_of(call.rows, split.remainder);
    x = row.offsets[1] + call.first[1];
    y = row.offsets[0] + call.first[0];
    begin = split.value * call.part_length;
    end = begin + call.part_length < call.length ? begin + call.part_length : call.length;
  }
};

/// Calls `visit(unit, is_stored)` for the units of the thread's group, the same number of times in
/// all threads of a block. A group without a unit computes the last one, and does not store it.
template <class Visit>
__device__ void for_each_unit(const cumulative_call& call, const Visit& visit) {
  const std::int64_t units = call.rows.count * call.parts;
  const std::int64_t units_of_block = threads_per_block / call.lanes;
  for (std::int64_t first = blockIdx.x * units_of_block; first < units;
       first += gridDim.x * units_of_block) {
    const std::int64_t unit = first + threadIdx.x / static_cast<unsigned>(call.lanes);
    visit(unit < units ? unit : units - 1, unit < units);
  }
}

/// The elements of a thread in a tile: `items` of them from `first` on, but none beyond the end.
template <class Accumulation>
__device__ void load_items(const cumulative_call& call, const Accumulation& accumulation,
                           const typename Accumulation::element* x, bool is_flat,
                           std::int64_t first, std::int64_t end,
                           typename Accumulation::value (&values)[items]) {
  using element = typename Accumulation::element;
  constexpr int size = 16 / sizeof(element) < items ? 16 / sizeof(element) : items;
  if (is_flat && first + items <= end) {
#pragma unroll
    for (int i = 0; i < items; i += size) {
      const auto v = *reinterpret_cast<const element_vector<element, size>*>(x + first + i);
#pragma unroll
      for (int j = 0; j < size; ++j) values[i + j] = Accumulation::value_of(v.elements[j]);
    }
    return;
  }
#pragma unroll
  for (int i = 0; i < items; ++i) {
    values[i] = first + i < end ? Accumulation::value_of(x[(first + i) * call.strides[1]])
                                : accumulation.identity();
  }
}
template <class Accumulation>
__device__ void store_items(const cumulative_call& call, typename Accumulation::element* y,
                            bool is_flat, std::int64_t first, std::int64_t end,
                            const typename Accumulation::value (&values)[items]) {
  using element = typename Accumulation::element;
  constexpr int size = 16 / sizeof(element) < items ? 16 / sizeof(element) : items;
  if (is_flat && first + items <= end) {
#pragma unroll
    for (int i = 0; i < items; i += size) {
      element_vector<element, size> v;
#pragma unroll
      for (int j = 0; j < size; ++j) v.elements[j] = Accumulation::element_of(values[i + j]);
      *reinterpret_cast<element_vector<element, size>*>(y + first + i) = v;
    }
    return;
  }
#pragma unroll
  for (int i = 0; i < items; ++i) {
    if (first + i < end) {
      y[(first + i) * call.strides[0]] = Accumulation::element_of(values[i]);
    }
  }
}

/// Computes the total of each part.
template <class Accumulation>
__global__ void __launch_bounds__(threads_per_block)
    totals_kernel(Accumulation accumulation, const __grid_constant__ cumulative_call call,
                  const typename Accumulation::element* x, bool is_flat,
                  typename Accumulation::value* totals) {
  using value = typename Accumulation::value;
  const unsigned lanes = static_cast<unsigned>(call.lanes);
  const unsigned lane = threadIdx.x % lanes;
  for_each_unit(call, [&](std::int64_t unit, bool is_stored) {
    const part_of_row part(call, unit);
    value total = accumulation.identity();
    if (lanes == 1) {
      for (std::int64_t i = part.begin; i < part.end; ++i) {
        total =
            accumulation.combine(total, Accumulation::value_of(x[part.x + i * call.strides[1]]));
      }
    } else {
      for (std::int64_t i = part.begin + lane * items; i < part.end; i += lanes * items) {
        value values[items];
        load_items(call, accumulation, x + part.x, is_flat, i, part.end, values);
#pragma unroll
        for (int j = 0; j < items; ++j) total = accumulation.combine(total, values[j]);
      }
      total = scan_group(accumulation, total, lanes).all;
    }
    if (lane == 0 && is_stored) totals[unit] = total;
  });
}

/// How totals are combined, whatever the elements are.
template <class Accumulation>
using accumulation_of_totals = accumulation<typename Accumulation::value>;

/// Replaces the totals of parts by those of all parts before each one. One block for each row.
template <class Accumulation>
__global__ void __launch_bounds__(threads_per_block)
    carries_kernel(Accumulation accumulation, std::int64_t rows, std::int64_t parts,
                   typename Accumulation::value* totals) {
  using value = typename Accumulation::value;
  for (std::int64_t row = blockIdx.x; row < rows; row += gridDim.x) {
    value carry = accumulation.identity();
    for (std::int64_t first = 0; first < parts; first += threads_per_block) {
      const std::int64_t part = first + threadIdx.x;
      const value total = part < parts ? totals[part * rows + row] : accumulation.identity();
      const auto sums = scan_group(accumulation, total, threads_per_block);
      if (part < parts) totals[part * rows + row] = accumulation.combine(carry, sums.before);
      carry = accumulation.combine(carry, sums.all);
    }
  }
}

/// Computes the results. `carries` are the totals before each part; nullptr if there is one part.
template <class Accumulation>
__global__ void __launch_bounds__(threads_per_block)
    results_kernel(Accumulation accumulation, const __grid_constant__ cumulative_call call,
                   const typename Accumulation::element* x, typename Accumulation::element* y,
                   bool is_flat, const typename Accumulation::value* carries) {
  using value = typename Accumulation::value;
  const unsigned lanes = static_cast<unsigned>(call.lanes);
  const unsigned lane = threadIdx.x % lanes;
  for_each_unit(call, [&](std::int64_t unit, bool is_stored) {
    const part_of_row part(call, unit);
    value carry = carries != nullptr ? carries[unit] : accumulation.identity();
    if (lanes == 1) {
      for (std::int64_t i = part.begin; is_stored && i < part.end; ++i) {
        const value next =
            accumulation.combine(carry, Accumulation::value_of(x[part.x + i * call.strides[1]]));
        y[part.y + i * call.strides[0]] =
            Accumulation::element_of(call.is_exclusive ? carry : next);
        carry = next;
      }
      return;
    }
    for (std::int64_t begin = part.begin; begin < part.end; begin += lanes * items) {
      const std::int64_t first = begin + lane * items;
      value values[items];
      load_items(call, accumulation, x + part.x, is_flat, first, part.end, values);
      value total = values[0];
#pragma unroll
      for (int j = 1; j < items; ++j) total = accumulation.combine(total, values[j]);
      const auto sums = scan_group(accumulation, total, lanes);
      value running = accumulation.combine(carry, sums.before);
#pragma unroll
      for (int j = 0; j < items; ++j) {
        const value next = accumulation.combine(running, values[j]);
        values[j] = call.is_exclusive ? running : next;
        running = next;
      }
      if (is_stored) {
        store_items<Accumulation>(call, y + part.y, is_flat, first, part.end, values);
      }
      carry = accumulation.combine(carry, sums.all);
    }
  });
}

/// Whether rows of x and y have no gaps and begin at multiples of 16 bytes.
[[nodiscard]] bool has_flat_rows(const cumulative_call& call, const void* x, const void* y,
                                 std::int64_t element_bytes) {
  const auto addresses = reinterpret_cast<std::uintptr_t>(x) | reinterpret_cast<std::uintptr_t>(y);
  if (addresses % 16 != 0 || call.strides[0] != 1 || call.strides[1] != 1) return false;
  for (int d = 0; d < call.rows.rank; ++d) {
    if (call.rows.shape[d] == 1) continue;
    for (int k = 0; k < 2; ++k) {
      if (call.rows.strides[k][d] * element_bytes % 16 != 0) return false;
    }
  }
  return true;
}

struct cumulative_launcher {
  const cumulative_call& call;
  const void* x;
  void* y;
  void* workspace;
  cudaStream_t stream;

  template <class Accumulation>
  int operator()(const Accumulation& accumulation) const {
    using element = typename Accumulation::element;
    using value = typename Accumulation::value;
    const bool is_flat = has_flat_rows(call, x, y, sizeof(element));
    const auto* const source = static_cast<const element*>(x);
    auto* const totals = call.parts > 1 ? static_cast<value*>(workspace) : nullptr;
    const std::int64_t units_of_block = threads_per_block / call.lanes;
    const auto blocks =
        blocks_for((call.rows.count * call.parts + units_of_block - 1) / units_of_block);
    if (call.parts > 1) {
      totals_kernel<<<blocks, threads_per_block, 0, stream>>>(accumulation, call, source, is_flat,
                                                              totals);
      carries_kernel<<<blocks_for(call.rows.count), threads_per_block, 0, stream>>>(
          accumulation_of_totals<Accumulation>{call.is_product}, call.rows.count, call.parts,
          totals);
    }
    results_kernel<<<blocks, threads_per_block, 0, stream>>>(accumulation, call, source,
                                                             static_cast<element*>(y), is_flat,
                                                             static_cast<const value*>(totals));
    return cudaGetLastError();
  }

 private:
  static unsigned blocks_for(std::int64_t count) {
    return static_cast<unsigned>(count < max_blocks ? count : max_blocks);
  }
};

struct cumulative_loader {
  template <class Accumulation>
  int operator()(const Accumulation&) const {
    cudaFuncAttributes attributes;
    cudaError_t status = cudaFuncGetAttributes(&attributes, totals_kernel<Accumulation>);
    if (status == cudaSuccess) {
      status =
          cudaFuncGetAttributes(&attributes, carries_kernel<accumulation_of_totals<Accumulation>>);
    }
    if (status == cudaSuccess) {
      status = cudaFuncGetAttributes(&attributes, results_kernel<Accumulation>);
    }
    return status;
  }
};

}  // namespace

int load_cumulative() {
  for (int type = 0; type <= static_cast<int>(storage::c128); ++type) {
    cumulative_call call{};
    call.rows.types[1] = static_cast<storage>(type);
    const int status = visit(call, cumulative_loader{});
    if (status != 0) return status;
  }
  return cudaSuccess;
}

int launch_cumulative(const cumulative_call& call, const void* x, void* y, void* workspace,
                      native_stream* stream) {
  return visit(call,
               cumulative_launcher{call, x, y, workspace, reinterpret_cast<cudaStream_t>(stream)});
}

}  // namespace sluice::operations
