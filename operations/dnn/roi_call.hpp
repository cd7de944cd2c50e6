// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "operations/elementwise/arithmetic.hpp"
#include "operations/elementwise/strided_map.hpp"

#include <sluice/operations/out_of_range_policy.hpp>
#include <sluice/operations/roi_pooling.hpp>
#include <sluice/runtime/error_word.hpp>

#include <cmath>
#include <cstdint>

// Kernels include this header, so it compiles as C++17.
namespace sluice::operations {

/// A dimension of an image that is divided into bins.
struct roi_axis {
  std::int64_t extent = 1;  ///< of x
  std::int64_t stride = 0;  ///< of x
  std::int64_t bins = 1;
  std::int64_t begin = 0;  ///< the offset of the first coordinate of a region
  std::int64_t end = 0;    ///< the offset of the last one
};

/// Operands: y, x in image 0 at row 0 and column 0, coordinate 0 of a region, its batch index, and
/// the indices of a bin along both axes. The latter are no memory.
struct roi_call {
  map_layout<6> layout{};
  roi_axis axes[2]{};  ///< rows, columns
  std::int64_t images = 1;
  std::int64_t image_stride = 0;
  std::int64_t sampling_ratio = 0;
  double spatial_scale = 1;
  roi_pooling mode = roi_pooling::average;
  bool half_pixel = true;
  out_of_range_policy out_of_range = out_of_range_policy::usual;
  index_report errors{};  ///< of the launch
};

/// The samples of a bin along an axis.
template <class T>
struct roi_samples {
  T start = 0;             ///< of the bin
  T step = 0;              ///< between samples
  T total = 0;             ///< the number of samples, which may be too large for an integer
  std::int64_t first = 0;  ///< samples before it and from `last` on are outside of x
  std::int64_t last = 0;

  [[nodiscard]] SLUICE_HOST_DEVICE T position(std::int64_t i) const noexcept {
    return start + (static_cast<T>(i) + T(0.5)) * step;
  }
};

/// The elements around a sample along an axis.
template <class T>
struct roi_neighbours {
  std::int64_t offsets[2];
  T weights[2];  ///< both 0 outside of x
};
template <class T>
[[nodiscard]] SLUICE_HOST_DEVICE inline roi_neighbours<T> neighbours_of(const roi_axis& axis,
                                                                        T position) noexcept {
  if (!(position >= T(-1) && position <= static_cast<T>(axis.extent))) return {{0, 0}, {0, 0}};
  if (position < T(0)) position = 0;
  const auto low = static_cast<std::int64_t>(position);
  if (low >= axis.extent - 1) return {{(axis.extent - 1) * axis.stride, 0}, {1, 0}};
  const T weight = position - static_cast<T>(low);
  return {{low * axis.stride, (low + 1) * axis.stride}, {T(1) - weight, weight}};
}

/// Computes the elements of a `roi_call` in the type `T`. The layout of the call is not needed
/// here.
template <class T>
struct roi_body {
  map_addresses addresses;
  roi_call call;

  SLUICE_HOST_DEVICE void operator()(const map_layout<6>& layout,
                                     const map_position<6>& position) const noexcept {
    const auto place = position.offsets[3];
    std::int64_t image = layout.types[3] == storage::i32
                             ? element_at<std::int32_t>(addresses.inputs[2], place)
                             : element_at<std::int64_t>(addresses.inputs[2], place);
    if (image < 0 || image >= call.images) {
      call.errors.report(image, place, call.images);
      image = image < 0 ? 0 : call.images - 1;
    }
    store<overflow::saturates>(
        layout.types[0], addresses.y, position.offsets[0],
        bin(layout, position, position.offsets[1] + image * call.image_stride));
  }

 private:
  [[nodiscard]] SLUICE_HOST_DEVICE T bin(const map_layout<6>& layout,
                                         const map_position<6>& position,
                                         std::int64_t offset) const noexcept {
    const auto rows = samples(layout, position, 0);
    const auto columns = samples(layout, position, 1);
    const bool is_average = call.mode == roi_pooling::average;
    T total = is_average ? T(0) : -static_cast<T>(INFINITY);
    for (std::int64_t i = rows.first; i < rows.last; ++i) {
      const auto row = neighbours_of(call.axes[0], rows.position(i));
      for (std::int64_t j = columns.first; j < columns.last; ++j) {
        const T sample =
            interpolate(layout, offset, row, neighbours_of(call.axes[1], columns.position(j)));
        total = is_average ? total + sample : larger(total, sample);
      }
    }
    if (is_average) {
      const T count = rows.total * columns.total;
      return count > T(1) ? total / count : total;
    }
    // The other samples are 0.
    const T inside =
        static_cast<T>(rows.last - rows.first) * static_cast<T>(columns.last - columns.first);
    if (!(rows.total * columns.total > T(0))) return 0;
    return rows.total * columns.total > inside ? larger(total, T(0)) : total;
  }

  [[nodiscard]] SLUICE_HOST_DEVICE roi_samples<T> samples(const map_layout<6>& layout,
                                                          const map_position<6>& position,
                                                          int dimension) const noexcept {
    const auto& axis = call.axes[dimension];
    const T offset = call.half_pixel ? T(0.5) : T(0);
    const auto coordinate = [&](std::int64_t component) {
      return load<T>(layout.types[2], addresses.inputs[1], position.offsets[2] + component) *
                 static_cast<T>(call.spatial_scale) -
             offset;
    };
    const T start = coordinate(axis.begin);
    T size = coordinate(axis.end) - start;
    if (!call.half_pixel && !(size >= T(1))) size = 1;
    const T bin_size = size / static_cast<T>(axis.bins);
    roi_samples<T> all;
    all.start = start + static_cast<T>(position.offsets[4 + dimension]) * bin_size;
    if (call.sampling_ratio > 0) {
      all.total = static_cast<T>(call.sampling_ratio);
      all.step = bin_size / all.total;
      all.last = call.sampling_ratio;
      return all;
    }
    all.total = std::ceil(bin_size);
    if (!(all.total > T(0))) {
      all.total = 0;
      return all;
    }
    all.step = bin_size / all.total;
    // Samples that can be inside; each of them is examined.
    const T first = std::floor((T(-1) - all.start) / all.step) - T(1);
    const T last = std::ceil((static_cast<T>(axis.extent) - all.start) / all.step) + T(1);
    const T end = last < all.total ? last : all.total;
    const T begin = first > T(0) ? first : T(0);
    // Not if a number is NaN or infinite.
    if (begin < end && end - begin <= T(2) * static_cast<T>(axis.extent) + T(8)) {
      all.first = static_cast<std::int64_t>(begin);
      all.last = static_cast<std::int64_t>(end);
    }
    return all;
  }

  [[nodiscard]] SLUICE_HOST_DEVICE T interpolate(const map_layout<6>& layout, std::int64_t offset,
                                                 const roi_neighbours<T>& row,
                                                 const roi_neighbours<T>& column) const noexcept {
    T sum = 0;
    T largest = -static_cast<T>(INFINITY);
    for (int i = 0; i < 2; ++i) {
      for (int j = 0; j < 2; ++j) {
        const T weight = row.weights[i] * column.weights[j];
        // 0 times NaN or infinity is NaN.
        const T term = weight == T(0)
                           ? T(0)
                           : weight * load<T>(layout.types[1], addresses.inputs[0],
                                              offset + row.offsets[i] + column.offsets[j]);
        sum += term;
        largest = larger(largest, term);
      }
    }
    return call.mode == roi_pooling::maximum_term ? largest : sum;
  }
};

template <class Run>
int visit(const roi_call& call, const map_addresses& addresses, const Run& run) {
  const bool is_double =
      call.layout.types[1] == storage::f64 || call.layout.types[2] == storage::f64;
  return is_double ? run(roi_body<double>{addresses, call}, call.layout)
                   : run(roi_body<float>{addresses, call}, call.layout);
}

}  // namespace sluice::operations
