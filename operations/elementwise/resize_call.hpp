// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "operations/elementwise/strided_map.hpp"

#include <cmath>
#include <cstdint>

// Kernels include this header, so it compiles as C++17.
namespace sluice::operations {

/// How rows or columns of the result lie among those of an image.
struct resized_axis {
  std::int64_t extent = 1;         ///< of the image
  std::int64_t stride = 0;         ///< of the image, in elements
  std::int64_t result_extent = 1;  ///< of the result
};

/// Bilinear interpolation. Operands: y, the image at row 0 and column 0, row of y, column of y. The
/// latter two are no memory: their positions are the indices.
struct resize_call {
  map_layout<4> layout{};
  resized_axis rows{};
  resized_axis columns{};
};

/// The two neighbours of an index of the result and the weight of the second one.
template <class T>
struct neighbours {
  std::int64_t first;
  std::int64_t second;
  T weight;
};
template <class T>
[[nodiscard]] SLUICE_HOST_DEVICE inline neighbours<T> neighbours_of(const resized_axis& axis,
                                                                    std::int64_t index) noexcept {
  // (index + 1/2) * extent / result_extent - 1/2 as one quotient of integers. While the product is
  // below 2^53, its integer part is right, and its fraction is 0 only for the centre of a pixel.
  const double numerator = (2 * static_cast<double>(index) + 1) * static_cast<double>(axis.extent) -
                           static_cast<double>(axis.result_extent);
  double position = numerator / (2 * static_cast<double>(axis.result_extent));
  if (position < 0) position = 0;
  const auto first = static_cast<std::int64_t>(position);
  const std::int64_t last = axis.extent - 1;
  if (first >= last) return {last * axis.stride, last * axis.stride, T(0)};
  return {first * axis.stride, (first + 1) * axis.stride,
          static_cast<T>(position - static_cast<double>(first))};
}

/// Computes the elements of a resized image in the type `T`.
template <class T>
struct resize_body {
  map_addresses addresses;
  resized_axis rows;
  resized_axis columns;

  SLUICE_HOST_DEVICE void operator()(const map_layout<4>& layout,
                                     const map_position<4>& position) const noexcept {
    const auto row = neighbours_of<T>(rows, position.offsets[2]);
    const auto column = neighbours_of<T>(columns, position.offsets[3]);
    T value = between(layout, position.offsets[1] + row.first, column);
    if (row.weight != 0) {
      value = blend(value, between(layout, position.offsets[1] + row.second, column), row.weight);
    }
    if (layout.types[0] == storage::u8) value = rounded(value);
    store<overflow::saturates>(layout.types[0], addresses.y, position.offsets[0], value);
  }

 private:
  [[nodiscard]] SLUICE_HOST_DEVICE T between(const map_layout<4>& layout, std::int64_t offset,
                                             const neighbours<T>& column) const noexcept {
    const T first = load<T>(layout.types[1], addresses.inputs[0], offset + column.first);
    if (column.weight == 0) return first;
    return blend(first, load<T>(layout.types[1], addresses.inputs[0], offset + column.second),
                 column.weight);
  }
  /// The mean of two numbers. One of weight 0 is left out: 0 times NaN or infinity is NaN.
  [[nodiscard]] SLUICE_HOST_DEVICE static T blend(T first, T second, T weight) noexcept {
    if (weight == 1) return second;
    return first * (T(1) - weight) + second * weight;
  }
  [[nodiscard]] SLUICE_HOST_DEVICE static T rounded(T value) noexcept {
#if defined(__CUDA_ARCH__)
    return ::rint(value);
#else
    return std::rint(value);
#endif
  }
};

template <class Run>
int visit(const resize_call& call, const map_addresses& addresses, const Run& run) {
  if (call.layout.types[0] == storage::f64) {
    return run(resize_body<double>{addresses, call.rows, call.columns}, call.layout);
  }
  return run(resize_body<float>{addresses, call.rows, call.columns}, call.layout);
}

}  // namespace sluice::operations
