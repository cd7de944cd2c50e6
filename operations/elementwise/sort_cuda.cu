// SPDX-License-Identifier: Apache-2.0
#include "operations/elementwise/launch_sort.hpp"

#include <cuda_runtime.h>

#include <cstdint>

namespace sluice::operations {
namespace {

constexpr int threads_per_block = 256;
constexpr int items_per_thread = 8;
constexpr int tile = threads_per_block * items_per_thread;
static_assert(tile == sorted_tile);
constexpr std::int64_t max_blocks = 1 << 30;

/// Items in memory without gaps: those of each row side by side.
template <class Item>
struct item_rows {
  Item* items;
  std::int64_t length;  ///< of a row
};

/// The number of items of `a` among the first `count` of `a` and `b` merged.
template <class Item>
[[nodiscard]] __device__ std::int64_t merge_path(const Item* a, std::int64_t a_size, const Item* b,
                                                 std::int64_t b_size, std::int64_t count) {
  std::int64_t low = count > b_size ? count - b_size : 0;
  std::int64_t high = count < a_size ? count : a_size;
  while (low < high) {
    const auto middle = (low + high) / 2;
    if (b[count - 1 - middle] < a[middle]) {
      high = middle;
    } else {
      low = middle + 1;
    }
  }
  return low;
}

/// Merges `a` and `b` in shared memory from item `first` on, into the registers of a thread.
template <class Item>
__device__ void merge_items(const Item* a, int a_size, const Item* b, int b_size, int first,
                            Item (&merged)[items_per_thread]) {
  auto i = static_cast<int>(merge_path(a, a_size, b, b_size, first));
  auto j = first - i;
#pragma unroll
  for (int k = 0; k < items_per_thread; ++k) {
    const bool takes_a = i < a_size && (j >= b_size || a[i] < b[j]);
    if (takes_a) {
      merged[k] = a[i++];
    } else {
      merged[k] = j < b_size ? b[j++] : Item::end();
    }
  }
}

template <class Item>
__device__ void sort_registers(Item (&items)[items_per_thread]) {
#pragma unroll
  for (int round = 0; round < items_per_thread; ++round) {
#pragma unroll
    for (int i = round % 2; i + 1 < items_per_thread; i += 2) {
      if (items[i + 1] < items[i]) {
        const Item larger = items[i];
        items[i] = items[i + 1];
        items[i + 1] = larger;
      }
    }
  }
}

/// What the blocks of `tiles_kernel` sort. A block sorts a tile of a row, or several rows of at
/// most a tile.
struct tile_list {
  std::int64_t blocks;
  std::int64_t length;         ///< items of a row
  std::int64_t tiles;          ///< of a row; 1 if a tile holds several rows
  std::int64_t kept;           ///< items that are kept of each tile, or of each row of a tile
  std::int64_t target_length;  ///< items of a row of the target
  int log_segment;  ///< a tile has segments of 2^log_segment items, which are sorted apart
};

/// Sorts the tiles of x, or of `source` if it has items, and writes what is kept to `target`, or to
/// the results if it has none.
template <class Item>
__global__ void __launch_bounds__(threads_per_block)
    tiles_kernel(const __grid_constant__ sort_call call, const __grid_constant__ sort_addresses to,
                 const __grid_constant__ tile_list list, const Item* source, Item* target) {
  __shared__ Item shared[tile];
  const int segment = 1 << list.log_segment;
  const int rows_of_tile = tile >> list.log_segment;
  for (std::int64_t block = blockIdx.x; block < list.blocks; block += gridDim.x) {
    const auto split = divide(block, list.tiles);
    const auto first_row = split.value * rows_of_tile;
    const auto first_item = split.remainder * tile;
    for (int e = threadIdx.x; e < tile; e += threads_per_block) {
      const auto row = first_row + (e >> list.log_segment);
      const auto i = first_item + (e & (segment - 1));
      Item item = Item::end();
      if (row < call.rows.count && i < list.length) {
        if (source != nullptr) {
          item = source[row * list.length + i];
        } else {
          const auto start = position_of(call.rows, row).offsets[2];
          item = Item::make(order_of(call.type(), to.x, start + i * call.strides[2]), i,
                            call.descending);
        }
      }
      shared[e] = item;
    }
    __syncthreads();
    Item items[items_per_thread];
    const int first = threadIdx.x * items_per_thread;
#pragma unroll
    for (int k = 0; k < items_per_thread; ++k) items[k] = shared[first + k];
    sort_registers(items);
    for (int width = items_per_thread; width < segment; width *= 2) {
      __syncthreads();
#pragma unroll
      for (int k = 0; k < items_per_thread; ++k) shared[first + k] = items[k];
      __syncthreads();
      const int pair = first / (2 * width) * 2 * width;
      merge_items(shared + pair, width, shared + pair + width, width, first - pair, items);
    }
    __syncthreads();
#pragma unroll
    for (int k = 0; k < items_per_thread; ++k) shared[first + k] = items[k];
    __syncthreads();
    for (int e = threadIdx.x; e < tile; e += threads_per_block) {
      const auto row = first_row + (e >> list.log_segment);
      const auto i = static_cast<std::int64_t>(e & (segment - 1));
      if (row >= call.rows.count || i >= list.kept || first_item + i >= list.length) continue;
      if (target != nullptr) {
        target[row * list.target_length + split.remainder * list.kept + i] = shared[e];
      } else {
        put_sorted(call, to, position_of(call.rows, row), i, shared[e].index());
      }
    }
    __syncthreads();
  }
}

/// Merges pairs of sorted parts of `width` items, tile by tile, into `target`, or into the results
/// if it has none.
template <class Item>
__global__ void __launch_bounds__(threads_per_block)
    merge_kernel(const __grid_constant__ sort_call call, const __grid_constant__ sort_addresses to,
                 std::int64_t blocks, std::int64_t tiles, std::int64_t width, const Item* source,
                 Item* target) {
  __shared__ Item shared[tile];
  __shared__ std::int64_t bounds[2];
  const auto length = call.length;
  for (std::int64_t block = blockIdx.x; block < blocks; block += gridDim.x) {
    const auto split = divide(block, tiles);
    const auto row = split.value;
    const auto first_item = split.remainder * tile;
    const auto pair = first_item / (2 * width) * 2 * width;
    const Item* const a = source + row * length + pair;
    const auto a_size = min(width, length - pair);
    const Item* const b = a + a_size;
    const auto b_size = min(width, length - pair - a_size);
    const auto begin = first_item - pair;
    const auto end = min(begin + tile, a_size + b_size);
    if (threadIdx.x < 2) {
      bounds[threadIdx.x] = merge_path(a, a_size, b, b_size, threadIdx.x == 0 ? begin : end);
    }
    __syncthreads();
    const auto a_begin = bounds[0];
    const auto b_begin = begin - a_begin;
    const auto a_count = static_cast<int>(bounds[1] - a_begin);
    const auto count = static_cast<int>(end - begin);
    for (int e = threadIdx.x; e < count; e += threads_per_block) {
      shared[e] = e < a_count ? a[a_begin + e] : b[b_begin + e - a_count];
    }
    __syncthreads();
    Item items[items_per_thread];
    const int first = threadIdx.x * items_per_thread;
    if (first < count) {
      merge_items(shared, a_count, shared + a_count, count - a_count, first, items);
    }
    __syncthreads();
    if (first < count) {
#pragma unroll
      for (int k = 0; k < items_per_thread; ++k) shared[first + k] = items[k];
    }
    __syncthreads();
    const auto position = position_of(call.rows, row);
    for (int e = threadIdx.x; e < count; e += threads_per_block) {
      const auto i = first_item + e;
      if (target != nullptr) {
        target[row * length + i] = shared[e];
      } else if (i < call.kept) {
        put_sorted(call, to, position, i, shared[e].index());
      }
    }
    __syncthreads();
  }
}

[[nodiscard]] std::int64_t tiles_of(std::int64_t length) {
  return (length + tile - 1) / tile;
}
[[nodiscard]] unsigned grid_of(std::int64_t blocks) {
  return static_cast<unsigned>(blocks < max_blocks ? blocks : max_blocks);
}

template <class Item>
class sorter {
 public:
  sorter(const sort_call& call, const sort_addresses& addresses, void* workspace,
         cudaStream_t stream)
      : call_(call),
        addresses_(addresses),
        workspace_(static_cast<Item*>(workspace)),
        stream_(stream) {}

  int run() const {
    if (call_.length <= tile) return sort_tiles(call_.length, call_.kept, nullptr, nullptr);
    return selects(call_) ? select() : sort_all();
  }

 private:
  /// Sorts rows of `length` items.
  int sort_tiles(std::int64_t length, std::int64_t kept, const Item* source, Item* target) const {
    tile_list list{};
    list.length = length;
    list.kept = kept;
    list.tiles = tiles_of(length);
    list.target_length = kept_by_tiles(length, kept);
    int log_segment = 3;  // the items of a thread
    while ((1 << log_segment) < tile && (std::int64_t{1} << log_segment) < length) ++log_segment;
    list.log_segment = log_segment;
    const std::int64_t rows_of_tile = tile >> log_segment;
    list.blocks = (call_.rows.count + rows_of_tile - 1) / rows_of_tile * list.tiles;
    tiles_kernel<<<grid_of(list.blocks), threads_per_block, 0, stream_>>>(call_, addresses_, list,
                                                                          source, target);
    return cudaGetLastError();
  }
  /// The tiles keep what may be among the first items of a row, until a tile holds the row.
  int select() const {
    auto length = call_.length;
    const auto buffer = call_.rows.count * kept_by_tiles(length, call_.kept);
    const Item* source = nullptr;
    Item* target = workspace_;
    while (true) {
      const bool is_last = length <= tile;
      const int status = sort_tiles(length, call_.kept, source, is_last ? nullptr : target);
      if (status != cudaSuccess || is_last) return status;
      length = kept_by_tiles(length, call_.kept);
      source = target;
      target = target == workspace_ ? workspace_ + buffer : workspace_;
    }
  }
  int sort_all() const {
    int status = sort_tiles(call_.length, tile, nullptr, workspace_);
    const auto buffer = call_.rows.count * call_.length;
    const Item* source = workspace_;
    Item* target = workspace_ + buffer;
    for (std::int64_t width = tile; width < call_.length && status == cudaSuccess; width *= 2) {
      const bool is_last = 2 * width >= call_.length;
      const auto tiles = tiles_of(is_last ? call_.kept : call_.length);
      const auto blocks = call_.rows.count * tiles;
      merge_kernel<<<grid_of(blocks), threads_per_block, 0, stream_>>>(
          call_, addresses_, blocks, tiles, width, source, is_last ? nullptr : target);
      status = cudaGetLastError();
      source = target;
      target = target == workspace_ ? workspace_ + buffer : workspace_;
    }
    return status;
  }

  const sort_call& call_;
  const sort_addresses& addresses_;
  Item* workspace_;
  cudaStream_t stream_;
};

template <class Item>
int load_kernels() {
  cudaFuncAttributes attributes;
  const auto status = cudaFuncGetAttributes(&attributes, tiles_kernel<Item>);
  return status != cudaSuccess ? status : cudaFuncGetAttributes(&attributes, merge_kernel<Item>);
}

}  // namespace

int load_sort() {
  const int status = load_kernels<narrow_item>();
  return status != cudaSuccess ? status : load_kernels<wide_item>();
}

int launch_sort(const sort_call& call, const sort_addresses& addresses, void* workspace,
                native_stream* stream) {
  auto* const queue = reinterpret_cast<cudaStream_t>(stream);
  return call.is_narrow() ? sorter<narrow_item>(call, addresses, workspace, queue).run()
                          : sorter<wide_item>(call, addresses, workspace, queue).run();
}

}  // namespace sluice::operations
