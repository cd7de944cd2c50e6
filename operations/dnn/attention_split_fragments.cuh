// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "operations/dnn/attention_weights.cuh"

#include <cuda_runtime.h>

#include <cstdint>

// Operands of products that warps read from memory into fragments, without shared memory.
namespace sluice::operations {

/// How the kernel divides its work: a block has 16 queries, and each of its warps has 32 keys of a
/// step. Rows have at most 64 elements.
struct split_plan {
  static constexpr int size = 64;
  static constexpr int tiles = 1;
  static constexpr int queries = 16 * tiles;
  static constexpr int warps = 4;
  static constexpr int threads = 32 * warps;
  static constexpr int keys = 32;
  static constexpr int step_keys = warps * keys;
};

namespace {

#if !defined(__CUDA_ARCH__) || __CUDA_ARCH__ >= 800

/// Reads a vector of a row, or zeros if it does not exist. `IsWhole` states that it does.
template <bool IsWhole, class Element>
[[nodiscard]] __device__ inline word_vector<Element> split_vector(const Element* position,
                                                                  bool exists) {
  word_vector<Element> result{};
  if (IsWhole || exists) result = *reinterpret_cast<const word_vector<Element>*>(position);
  return result;
}

/// Fragments of products over the elements of rows. Lane 4 · g + t has of row g of each eight rows
/// the elements 8t to 8t + 7 of each 32. Both operands have the elements in this order, which the
/// sums do not depend on. Offsets of elements fit in 32 bits.
template <class Element, int Rows>
struct row_fragments {
  word_vector<Element> vectors[Rows / 8][2];

  /// Loads rows from `begin` on. Rows after the last one are zeros, or copies of the last one if
  /// `RepeatsLast`. `IsWhole` states that rows have 64 elements, and that all rows exist unless the
  /// last one is repeated.
  template <bool IsWhole, bool RepeatsLast>
  __device__ void load(const core_rows<Element>& source, int begin) {
    const int lane = static_cast<int>(threadIdx.x) % 32;
    const int e = lane % 4 * 8;
    const auto distance = static_cast<unsigned>(source.row);
    unsigned offset = static_cast<unsigned>(begin + lane / 4) * distance + e;
#pragma unroll
    for (int n = 0; n < Rows / 8; ++n) {
      const int row = begin + 8 * n + lane / 4;
      if (RepeatsLast) offset = static_cast<unsigned>(min(row, source.count - 1)) * distance + e;
#pragma unroll
      for (int part = 0; part < 2; ++part) {
        const bool exists = (RepeatsLast || row < source.count) && 32 * part + e < source.size;
        vectors[n][part] = split_vector<IsWhole>(source.first + offset + 32 * part, exists);
      }
      if (!RepeatsLast) offset += 8 * distance;
    }
  }
};

/// Fragments of products over rows. Lane 4 · g + t has of each 16 rows the rows 2t, 2t + 1, 2t + 8
/// and 2t + 9, and of these the elements 8g to 8g + 7, which are columns g of eight blocks. Offsets
/// of elements fit in 32 bits.
template <class Element>
struct column_fragments {
  word_vector<Element> vectors[split_plan::keys / 16][4];

  /// Loads rows from `begin` on, and zeros where there are none. `IsWhole` states that all rows
  /// exist and have 64 elements.
  template <bool IsWhole>
  __device__ void load(const core_rows<Element>& source, int begin) {
    const int lane = static_cast<int>(threadIdx.x) % 32;
    const int e = lane / 4 * 8;
    const int r = begin + lane % 4 * 2;
    const auto distance = static_cast<unsigned>(source.row);
    const unsigned offset = static_cast<unsigned>(r) * distance + e;
#pragma unroll
    for (int step = 0; step < split_plan::keys / 16; ++step) {
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        const int row = 16 * step + i / 2 * 8 + i % 2;
        const bool exists = r + row < source.count && e < source.size;
        vectors[step][i] = split_vector<IsWhole>(source.first + (offset + row * distance), exists);
      }
    }
  }
  /// The rows 2t and 2t + 1, or those 8 below, of the column of block `n`.
  [[nodiscard]] __device__ std::uint32_t pair(int step, int n, int below) const {
    const std::uint32_t upper = vectors[step][2 * below].words[n / 2];
    const std::uint32_t lower = vectors[step][2 * below + 1].words[n / 2];
    return __byte_perm(upper, lower, n % 2 == 0 ? 0x5410 : 0x7632);
  }
};

/// The operands of a step of a warp.
template <class Element>
struct split_operands {
  row_fragments<Element, split_plan::queries> queries;
  row_fragments<Element, split_plan::keys> keys;
  column_fragments<Element> values;
};

/// scores += queries · keys
template <class Element>
__device__ inline void add_products(const split_operands<Element>& operands,
                                    core_scores<split_plan>& scores) {
#pragma unroll
  for (int part = 0; part < 2; ++part) {
    const auto& upper = operands.queries.vectors[0][part].words;
    const auto& lower = operands.queries.vectors[1][part].words;
#pragma unroll
    for (int word = 0; word < 4; word += 2) {
      const std::uint32_t left[4] = {upper[word], lower[word], upper[word + 1], lower[word + 1]};
#pragma unroll
      for (int n = 0; n < split_plan::keys / 8; ++n) {
        const auto& right = operands.keys.vectors[n][part].words;
        multiply_add(Element{}, scores[0][n], left, right[word], right[word + 1]);
      }
    }
  }
}

/// sums += weights · values
template <class Element>
__device__ inline void add_weighted(const core_scores<split_plan>& weights,
                                    const split_operands<Element>& operands,
                                    core_state<split_plan>& state) {
#pragma unroll
  for (int step = 0; step < split_plan::keys / 16; ++step) {
    std::uint32_t factors[4];
    pack_weights<Element>(weights[0][2 * step], weights[0][2 * step + 1], factors);
#pragma unroll
    for (int n = 0; n < split_plan::size / 8; ++n) {
      multiply_add(Element{}, state.sums[0][n], factors, operands.values.pair(step, n, 0),
                   operands.values.pair(step, n, 1));
    }
  }
}

#endif

}  // namespace
}  // namespace sluice::operations
