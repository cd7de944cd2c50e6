// SPDX-License-Identifier: Apache-2.0
#include "operations/elementwise/launch_concatenate.hpp"

#include <cuda_runtime.h>

#include <cstdint>

namespace sluice::operations {
namespace {

constexpr unsigned threads_per_block = 256;
constexpr unsigned units_per_thread = 4;
constexpr std::int64_t units_per_block = threads_per_block * units_per_thread;

/// The rows of one x. Sizes are in units of the kernel.
struct piece {
  const void* x;
  std::int64_t size;         ///< of a row
  std::int64_t offset;       ///< of its part in a row of y
  std::int64_t first_block;  ///< the blocks of the pieces follow each other
};
struct piece_list {
  piece pieces[max_pieces];
  int count;
  std::int64_t rows;
  std::int64_t row_size;  ///< of y
};

/// Copies the units of one piece. `Index` holds their number.
template <class Unit, class Index>
__device__ void copy_piece(const piece& source, std::int64_t block, std::int64_t total,
                           std::int64_t row_size, Unit* y) {
  const auto* const x = static_cast<const Unit*>(source.x);
  const auto size = static_cast<Index>(source.size);
  Unit units[units_per_thread];
  const auto first = block * units_per_block + threadIdx.x;
#pragma unroll
  for (unsigned k = 0; k < units_per_thread; ++k) {
    const auto i = first + k * threads_per_block;
    if (i < total) units[k] = x[i];
  }
#pragma unroll
  for (unsigned k = 0; k < units_per_thread; ++k) {
    const auto i = first + k * threads_per_block;
    if (i >= total) break;
    const auto row = static_cast<Index>(i) / size;
    const auto column = static_cast<Index>(i) - row * size;
    y[static_cast<std::int64_t>(row) * row_size + source.offset + column] = units[k];
  }
}

template <class Unit>
__global__ void __launch_bounds__(threads_per_block)
    concatenate_kernel(const __grid_constant__ piece_list list, Unit* y) {
  // The last piece whose blocks begin here or before.
  int low = 0;
  for (int high = list.count; high - low > 1;) {
    const int middle = (low + high) / 2;
    if (list.pieces[middle].first_block <= blockIdx.x) {
      low = middle;
    } else {
      high = middle;
    }
  }
  const piece& source = list.pieces[low];
  const auto total = list.rows * source.size;
  const auto block = blockIdx.x - source.first_block;
  if (total + units_per_block <= UINT32_MAX) {
    copy_piece<Unit, std::uint32_t>(source, block, total, list.row_size, y);
  } else {
    copy_piece<Unit, std::uint64_t>(source, block, total, list.row_size, y);
  }
}

template <class Unit>
int launch(const concatenate_call& call, const concatenate_addresses& addresses,
           cudaStream_t stream) {
  constexpr std::int64_t unit = sizeof(Unit);
  piece_list list{};
  list.rows = call.rows;
  list.row_size = call.row_bytes / unit;
  std::int64_t offset = 0;
  std::int64_t blocks = 0;
  for (int i = 0; i < call.pieces; ++i) {
    const auto size = call.piece_bytes[i] / unit;
    if (size == 0) continue;
    list.pieces[list.count++] = {addresses.x[i], size, offset, blocks};
    offset += size;
    blocks += (call.rows * size + units_per_block - 1) / units_per_block;
  }
  if (blocks > INT32_MAX) return cudaErrorInvalidConfiguration;  // more than a device holds
  concatenate_kernel<<<static_cast<unsigned>(blocks), threads_per_block, 0, stream>>>(
      list, static_cast<Unit*>(addresses.y));
  return cudaGetLastError();
}

/// Calls `run` with the largest unit that divides all of these numbers.
template <class Run>
int with_unit(std::uint64_t numbers, const Run& run) {
  if (numbers % sizeof(uint4) == 0) return run(uint4{});
  if (numbers % sizeof(std::uint64_t) == 0) return run(std::uint64_t{});
  if (numbers % sizeof(std::uint32_t) == 0) return run(std::uint32_t{});
  if (numbers % sizeof(std::uint16_t) == 0) return run(std::uint16_t{});
  return run(std::uint8_t{});
}

}  // namespace

int load_concatenate() {
  int status = cudaSuccess;
  for (const std::uint64_t size : {16, 8, 4, 2, 1}) {
    if (status != cudaSuccess) break;
    status = with_unit(size, [](auto unit) {
      cudaFuncAttributes attributes;
      return static_cast<int>(
          cudaFuncGetAttributes(&attributes, concatenate_kernel<decltype(unit)>));
    });
  }
  return status;
}

int launch_concatenate(const concatenate_call& call, const concatenate_addresses& addresses,
                       native_stream* stream) {
  auto numbers = reinterpret_cast<std::uintptr_t>(addresses.y);
  for (int i = 0; i < call.pieces; ++i) {
    if (call.piece_bytes[i] == 0) continue;
    numbers |= static_cast<std::uint64_t>(call.piece_bytes[i]);
    numbers |= reinterpret_cast<std::uintptr_t>(addresses.x[i]);
  }
  return with_unit(numbers, [&](auto unit) {
    return launch<decltype(unit)>(call, addresses, reinterpret_cast<cudaStream_t>(stream));
  });
}

}  // namespace sluice::operations
