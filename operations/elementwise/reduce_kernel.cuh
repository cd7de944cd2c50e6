// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "operations/elementwise/reduce_call.hpp"

#include <cstdint>
#include <cstring>

// How the threads of a GPU share a reduction. Kernels of the library and generated ones consist of
// it, so it compiles as C++17.
namespace sluice::operations {

inline constexpr unsigned reduce_threads = 256;  // of a block

/// The value of the thread `distance` threads further, of the same group of `width` threads.
template <class Value>
[[nodiscard]] __device__ Value value_from(const Value& value, unsigned distance, unsigned width) {
  static_assert(sizeof(Value) % sizeof(unsigned) == 0);
  unsigned words[sizeof(Value) / sizeof(unsigned)];
  memcpy(words, &value, sizeof value);
  for (unsigned& word : words) {
    word = __shfl_down_sync(~0U, word, distance, static_cast<int>(width));
  }
  Value other;
  memcpy(&other, words, sizeof other);
  return other;
}

/// Combines the values of groups of `lanes` neighbouring threads, a power of two. All threads of
/// the block call it. The first thread of a group gets the result.
template <class Reducer>
__device__ typename Reducer::value combine_lanes(const Reducer& reducer,
                                                 typename Reducer::value total, unsigned lanes) {
  using value = typename Reducer::value;
  constexpr unsigned warp = 32;
  // The loops stay loops: copies of them would make the kernels much larger.
  const auto combine_warp = [&](unsigned width) {
#pragma unroll 1
    for (unsigned distance = width / 2; distance > 0; distance /= 2) {
      total = reducer.combine(total, value_from(total, distance, width));
    }
  };
  combine_warp(lanes < warp ? lanes : warp);
  if (lanes <= warp) return total;
  // Memory for any type: a variable of a template parameter's type would need its constructor.
  alignas(16) __shared__ unsigned char memory[reduce_threads / warp * sizeof(value)];
  auto* const of_warps = reinterpret_cast<value*>(memory);
  __syncthreads();
  if (threadIdx.x % warp == 0) of_warps[threadIdx.x / warp] = total;
  __syncthreads();
  if (threadIdx.x % lanes == 0) {
#pragma unroll 1
    for (unsigned i = 1; i < lanes / warp; ++i) {
      total = reducer.combine(total, of_warps[threadIdx.x / warp + i]);
    }
  }
  return total;
}

/// What is reduced: each result in parts.
struct reduced_parts {
  std::int64_t results;
  std::int64_t parts;        ///< of each result
  std::int64_t part_length;  ///< elements of each part but the last one
  std::int64_t elements;     ///< of each result
};
/// Some elements of a result.
struct element_range {
  std::int64_t begin;
  std::int64_t end;
};
/// The elements of a part.
[[nodiscard]] __device__ inline element_range elements_in(const reduced_parts& size,
                                                          std::int64_t part) {
  const std::int64_t begin = part * size.part_length;
  const std::int64_t end = begin + size.part_length;
  return {begin, end < size.elements ? end : size.elements};
}

/// Reduces units on groups of `lanes` threads each. Unit u is part u / results of result
/// u % results, whose operands are at `locate(result)`. Each thread calls
/// `add(total, position, range, lane)` for its share of a unit, and the first one of the group
/// `finish(unit, position, total)`.
template <class Reducer, class Locate, class Add, class Finish>
__device__ __forceinline__ void reduce_units(const Reducer& reducer, const reduced_parts& size,
                                             unsigned lanes, const Locate& locate, const Add& add,
                                             const Finish& finish) {
  using value = typename Reducer::value;
  const unsigned lane = threadIdx.x % lanes;
  const std::int64_t units = size.results * size.parts;
  const std::int64_t units_of_block = reduce_threads / lanes;
  for (std::int64_t first = blockIdx.x * units_of_block; first < units;
       first += gridDim.x * units_of_block) {
    const std::int64_t unit = first + threadIdx.x / lanes;
    value total = reducer.identity();
    decltype(locate(unit)) position{};
    if (unit < units) {
      quotient split{0, unit};
      if (size.parts > 1) split = divide(unit, size.results);
      position = locate(split.remainder);
      add(total, position, elements_in(size, split.value), lane);
    }
    const value combined = combine_lanes(reducer, total, lanes);
    if (unit >= units || lane != 0) continue;
    finish(unit, position, combined);
  }
}

}  // namespace sluice::operations
