// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "operations/elementwise/reduce_kernel.cuh"
#include "operations/fusion/fused_kernel.cuh"

#include <cstdint>

// What generated kernels that end with a reduction consist of, beside fused_kernel.cuh. `Chain`
// names the number of its operands and the type of Y, and `at<Size>(arguments, position)` computes
// its last value for `Size` elements along the last dimension.
namespace sluice::operations {

/// The values of parts as the second kernel of a reduction reads them.
///@{
template <class Reducer>
struct kept_value {
  using type = typename Reducer::value;
};
template <>
struct kept_value<extremum_reducer<float>> {
  using type = double;
};
///@}

template <class Chain, class Arguments, class Reducer>
__device__ __forceinline__ void put_total(const Arguments& a, const Reducer& reducer,
                                          std::int64_t unit, std::int64_t y,
                                          const typename Reducer::value& total) {
  if (a.parts == 1) {
    store_result(Chain::y, a.addresses[0], y, reducer.finish(total));
  } else {
    static_cast<typename kept_value<Reducer>::type*>(a.workspace)[unit] = total;
  }
}

/// The position of elements of a result, of which `width` are counted as one. `IsFlat`: the
/// elements have one dimension.
template <bool IsFlat, int Operands>
[[nodiscard]] __device__ __forceinline__ map_position<Operands> element_position(
    const fused_indices<Operands>& elements, const map_position<Operands>& result,
    std::int64_t number, std::int64_t width) {
  map_position<Operands> position{};
  if constexpr (!IsFlat) position = vector_position(elements, number, width);
#pragma unroll
  for (int k = 0; k < Operands; ++k) {
    if constexpr (IsFlat) position.offsets[k] = number * width * elements.strides[k][0];
    position.offsets[k] += result.offsets[k];
  }
  return position;
}

/// Counts one element of a vector.
template <class Reducer, storage Type, int Size>
__device__ __forceinline__ void add_element(const Reducer& reducer, typename Reducer::value& total,
                                            const fused_elements<Type, Size>& x, int j) {
  reducer.add(total, read_element<typename Reducer::element, Type>(element_of(x, j)), 0);
}

/// Vectors whose reads a thread has under way at once.
template <bool IsFlat>
inline constexpr int fused_vectors = IsFlat ? 2 : 1;

/// Reduces elements that are the closest ones: neighbouring threads compute those of one result.
template <class Chain, int Width, bool IsFlat, class Arguments, class Reducer>
__device__ __forceinline__ void reduce_rows(const Arguments& a, const Reducer& reducer) {
  using value = typename Reducer::value;
  using position_type = map_position<Chain::operands>;
  const auto lanes = static_cast<unsigned>(a.lanes);
  reduce_units(
      reducer, {a.results.count, a.parts, a.part_length, a.elements.count}, lanes,
      [&](std::int64_t result) { return vector_position(a.results, result, 1); },
      [&](value& total, const position_type& row, const element_range& range, unsigned lane) {
        const std::int64_t last = range.end / Width;
        constexpr int in_flight = fused_vectors<IsFlat>;
#pragma unroll in_flight
        for (std::int64_t i = range.begin / Width + lane; i < last; i += lanes) {
          const auto x =
              Chain::template at<Width>(a, element_position<IsFlat>(a.elements, row, i, Width));
#pragma unroll
          for (int j = 0; j < Width; ++j) add_element(reducer, total, x, j);
        }
        // With several dimensions the last one consists of whole vectors.
        if constexpr (Width > 1 && IsFlat) {
          for (std::int64_t i = last * Width + lane; i < range.end; i += lanes) {
            add_element(reducer, total,
                        Chain::template at<1>(a, element_position<true>(a.elements, row, i, 1)), 0);
          }
        }
      },
      [&](std::int64_t unit, const position_type& row, const value& total) {
        put_total<Chain>(a, reducer, unit, row.offsets[0], total);
      });
}

/// Reduces elements whose neighbours belong to other results: each thread computes a vector of
/// results, of one part. Unit u is part u / vectors of vector u % vectors.
template <class Chain, int Width, bool IsFlat, class Arguments, class Reducer>
__device__ __forceinline__ void reduce_columns(const Arguments& a, const Reducer& reducer) {
  const reduced_parts size{a.results.count, a.parts, a.part_length, a.elements.count};
  const std::int64_t vectors = size.results / Width;
  const std::int64_t distance = a.results.strides[0][a.results.rank - 1];
  for (std::int64_t unit = static_cast<std::int64_t>(blockIdx.x) * reduce_threads + threadIdx.x;
       unit < vectors * size.parts; unit += static_cast<std::int64_t>(gridDim.x) * reduce_threads) {
    quotient split{0, unit};
    if (size.parts > 1) split = divide(unit, vectors);
    constexpr int in_flight = fused_vectors<IsFlat>;
    const auto range = elements_in(size, split.value);
    const auto column = vector_position(a.results, split.remainder, Width);
    typename Reducer::value totals[Width];
#pragma unroll
    for (int j = 0; j < Width; ++j) totals[j] = reducer.identity();
#pragma unroll in_flight
    for (std::int64_t i = range.begin; i < range.end; ++i) {
      const auto x =
          Chain::template at<Width>(a, element_position<IsFlat>(a.elements, column, i, 1));
#pragma unroll
      for (int j = 0; j < Width; ++j) add_element(reducer, totals[j], x, j);
    }
    const std::int64_t first = split.value * size.results + split.remainder * Width;
#pragma unroll
    for (int j = 0; j < Width; ++j) {
      put_total<Chain>(a, reducer, first + j, column.offsets[0] + j * distance, totals[j]);
    }
  }
}

}  // namespace sluice::operations
