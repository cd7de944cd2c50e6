// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "operations/elementwise/strided_map.hpp"

#include <sluice/operations/resize_mode.hpp>

#include <cmath>
#include <cstdint>

// Positions of results among the elements of an axis, and the weights of the elements around them.
// Kernels include this header, so it compiles as C++17.
namespace sluice::operations {

/// Cubic convolution: the weight of an element at a distance of at least 0 (R. Keys, "Cubic
/// Convolution Interpolation for Digital Image Processing", 1981). Its polynomials are factored, so
/// that nothing cancels near their zeros at 1 and 2.
template <class T>
[[nodiscard]] SLUICE_HOST_DEVICE inline T cubic_weight(T distance, T a) noexcept {
  if (distance <= T(1)) {
    return (T(1) - distance) * (T(1) + distance - (a + T(2)) * distance * distance);
  }
  if (distance >= T(2)) return T(0);
  return a * (distance - T(1)) * (distance - T(2)) * (distance - T(2));
}

/// How the results along an axis lie among the elements of x.
struct resize_axis {
  std::int64_t extent = 1;  ///< of x
  std::int64_t stride = 0;  ///< of x, in elements
  std::int64_t result = 1;  ///< the extent of y
  /// A result takes numerator / denominator elements of x.
  ///@{
  double numerator = 1;
  double denominator = 1;
  ///@}
  double offset = 0;        ///< of the first position
  double filter_scale = 1;  ///< at most 1: a filter is stretched by its reciprocal
  bool is_centred = true;   ///< whether positions are those of the centres of elements

  /// The position of a result. One quotient of integers: while they are below 2^53, its integer
  /// part is right, and its fraction is 0 only for the centre of an element.
  [[nodiscard]] SLUICE_HOST_DEVICE double position(std::int64_t index) const noexcept {
    const auto i = static_cast<double>(index);
    const double quotient = is_centred ? (2 * i + 1) * numerator - denominator : 2 * i * numerator;
    return offset + quotient / (2 * denominator);
  }
  /// The element at a place, or the one at the edge.
  [[nodiscard]] SLUICE_HOST_DEVICE std::int64_t inside(std::int64_t place) const noexcept {
    return place < 0 ? 0 : place >= extent ? extent - 1 : place;
  }
};

/// What is the same for all axes.
struct resize_filter {
  resize_mode mode = resize_mode::linear;
  nearest_rounding rounding = nearest_rounding::prefer_floor;
  bool excludes_outside = false;
  bool crops = false;  ///< whether positions outside x have a value of their own
  double a = -0.75;

  /// Elements on each side of a position that have weights.
  [[nodiscard]] SLUICE_HOST_DEVICE double reach() const noexcept {
    return mode == resize_mode::cubic ? 2 : 1;
  }
  /// Whether sums are divided by the sum of their weights, which is not 1.
  [[nodiscard]] SLUICE_HOST_DEVICE bool normalizes(const resize_axis& axis) const noexcept {
    return mode == resize_mode::area || axis.filter_scale < 1 ||
           (mode == resize_mode::cubic && excludes_outside);
  }
};

/// The most elements that make up a result along an axis; too large for an integer if x is.
[[nodiscard]] inline double most_taps(const resize_axis& axis,
                                      const resize_filter& filter) noexcept {
  const auto extent = static_cast<double>(axis.extent);
  if (filter.mode == resize_mode::nearest) return 1;
  const double most = filter.mode == resize_mode::area
                          ? extent / static_cast<double>(axis.result) + 2
                          : 2 * filter.reach() / axis.filter_scale + 1;
  return most < extent ? most : extent;
}

/// The elements that make up a result along an axis. They may be outside x.
template <class T>
struct resize_taps {
  std::int64_t first = 0;
  std::int64_t count = 0;  ///< 0: the position is cropped
  T distance = 0;          ///< from the first one to the position
};

/// The element at a position.
[[nodiscard]] SLUICE_HOST_DEVICE inline double nearest_place(nearest_rounding rounding,
                                                             double position) noexcept {
  switch (rounding) {
    case nearest_rounding::prefer_floor:
      return std::ceil(position - 0.5);
    case nearest_rounding::prefer_ceil:
      return std::floor(position + 0.5);
    case nearest_rounding::floor:
      return std::floor(position);
    default:
      return std::ceil(position);
  }
}

template <class T>
[[nodiscard]] SLUICE_HOST_DEVICE inline resize_taps<T> taps_of(const resize_axis& axis,
                                                               const resize_filter& filter,
                                                               std::int64_t index) noexcept {
  if (filter.mode == resize_mode::area) {
    const std::int64_t begin = divide(index * axis.extent, axis.result).value;
    const std::int64_t last = divide((index + 1) * axis.extent - 1, axis.result).value;
    return {begin, last + 1 - begin, T(0)};
  }
  double position = axis.position(index);
  const auto last = static_cast<double>(axis.extent - 1);
  if (filter.crops && !(position >= 0 && position <= last)) return {};
  const auto clamped = [last](double place) {
    return place < 0 ? 0 : place > last ? last : place;
  };
  if (filter.mode == resize_mode::nearest) {
    const double place = clamped(nearest_place(filter.rounding, position));
    return {static_cast<std::int64_t>(place), 1, T(0)};
  }
  if (axis.filter_scale < 1) {
    double first = std::ceil(position - filter.reach() / axis.filter_scale);
    double end = std::floor(position + filter.reach() / axis.filter_scale);
    if (filter.excludes_outside) {
      first = clamped(first);
      end = clamped(end);
    }
    return {static_cast<std::int64_t>(first), static_cast<std::int64_t>(end - first) + 1,
            static_cast<T>(position - first)};
  }
  if (filter.mode == resize_mode::linear) position = clamped(position);
  const double place = std::floor(position);
  const auto first = static_cast<std::int64_t>(place);
  const double fraction = position - place;
  if (fraction == 0 && position >= 0 && position <= last) return {first, 1, T(0)};
  if (filter.mode == resize_mode::linear) return {first, 2, static_cast<T>(fraction)};
  return {first - 1, 4, static_cast<T>(fraction + 1)};
}

/// The weight of tap `k`, before it is divided by the sum of weights.
template <class T>
[[nodiscard]] SLUICE_HOST_DEVICE inline T weight_of(const resize_axis& axis,
                                                    const resize_filter& filter,
                                                    const resize_taps<T>& taps,
                                                    std::int64_t k) noexcept {
  if (filter.mode == resize_mode::nearest || filter.mode == resize_mode::area) return T(1);
  T distance = static_cast<T>(k) - taps.distance;
  if (distance < 0) distance = -distance;
  if (axis.filter_scale < 1) distance *= static_cast<T>(axis.filter_scale);
  if (filter.mode == resize_mode::cubic) return cubic_weight(distance, static_cast<T>(filter.a));
  if (axis.filter_scale == 1) return k == 0 ? T(1) - taps.distance : taps.distance;
  return distance < T(1) ? T(1) - distance : T(0);
}

}  // namespace sluice::operations
