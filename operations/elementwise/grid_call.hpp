// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "operations/elementwise/resize_axis.hpp"
#include "operations/elementwise/strided_map.hpp"

#include <sluice/operations/grid_mode.hpp>

#include <cmath>
#include <cstdint>
#include <type_traits>

// Kernels include this header, so it compiles as C++17.
namespace sluice::operations {

/// A dimension of x that is sampled.
struct grid_axis {
  std::int64_t extent = 1;
  std::int64_t stride = 0;     ///< of x
  std::int64_t component = 0;  ///< the offset of its coordinate in the grid
};

/// Samples at the positions of a grid. Operands: y, x at index 0 of the axes, coordinate 0 of the
/// grid.
struct grid_call {
  static constexpr int max_axes = 3;
  map_layout<3> layout{};
  grid_axis axes[max_axes]{};
  std::int32_t axis_count = 1;
  grid_mode mode = grid_mode::linear;
  grid_padding padding = grid_padding::zeros;
  bool align_corners = false;

  /// Each element of a sample takes the time of several other elements.
  [[nodiscard]] double work() const noexcept {
    constexpr double work_of_element = 5;
    const int side = mode == grid_mode::nearest ? 1 : mode == grid_mode::linear ? 2 : 4;
    auto elements = static_cast<double>(layout.count);
    for (int i = 0; i < axis_count; ++i) elements *= side;
    return work_of_element * elements;
  }
};

/// How coordinates become positions among the elements of x.
struct grid_borders {
  grid_padding padding = grid_padding::zeros;
  bool align_corners = false;

  template <class T>
  [[nodiscard]] SLUICE_HOST_DEVICE T position(const grid_axis& axis, T coordinate) const noexcept {
    if (coordinate != coordinate) coordinate = T(-1);
    const auto extent = static_cast<T>(axis.extent);
    if (align_corners) return (coordinate + T(1)) / T(2) * (extent - T(1));
    return ((coordinate + T(1)) * extent - T(1)) / T(2);
  }
  /// The position in x that stands for one that may be outside; zeros stay outside.
  template <class T>
  [[nodiscard]] SLUICE_HOST_DEVICE T padded(const grid_axis& axis, T position) const noexcept {
    if (padding == grid_padding::zeros) return position;
    if (padding == grid_padding::reflection) position = reflected(axis, position);
    const auto last = static_cast<T>(axis.extent - 1);
    return position > last ? last : position > T(0) ? position : T(0);
  }

 private:
  template <class T>
  [[nodiscard]] SLUICE_HOST_DEVICE T reflected(const grid_axis& axis, T position) const noexcept {
    const T first = align_corners ? T(0) : T(-0.5);
    const auto span = static_cast<T>(align_corners ? axis.extent - 1 : axis.extent);
    if (span == T(0)) return T(0);
    const T distance = std::fabs(position - first);
    const T rest = std::fmod(distance, span);
    const bool is_odd = std::fmod(std::floor(distance / span), T(2)) == T(1);
    return (is_odd ? span - rest : rest) + first;
  }
};

/// The elements along an axis that make up a sample. One of weight 0 is not read.
template <class T, int Taps>
struct grid_taps {
  T weights[Taps];
  std::int64_t offsets[Taps];  ///< in elements of x

  SLUICE_HOST_DEVICE void set(int k, const grid_axis& axis, T place, T weight) noexcept {
    const bool is_inside = place >= T(0) && place <= static_cast<T>(axis.extent - 1);
    weights[k] = is_inside ? weight : T(0);
    offsets[k] = is_inside ? static_cast<std::int64_t>(place) * axis.stride : 0;
  }
};

template <class T, int Taps>
[[nodiscard]] SLUICE_HOST_DEVICE inline grid_taps<T, Taps> taps_of(const grid_axis& axis,
                                                                   const grid_borders& borders,
                                                                   T coordinate) noexcept {
  grid_taps<T, Taps> taps;
  const T position = borders.position(axis, coordinate);
  if constexpr (Taps == 1) {
    taps.set(0, axis, std::rint(borders.padded(axis, position)), T(1));
  } else if constexpr (Taps == 2) {
    const T place = borders.padded(axis, position);
    const T first = std::floor(place);
    taps.set(0, axis, first, T(1) - (place - first));
    taps.set(1, axis, first + T(1), place - first);
  } else {
    const T first = std::floor(position);
    T fraction = position - first;
    if (!(fraction >= T(0))) fraction = T(0);  // of an infinite position
    for (int k = 0; k < Taps; ++k) {
      const T distance = std::fabs(fraction - static_cast<T>(k - 1));
      taps.set(k, axis, borders.padded(axis, first + static_cast<T>(k - 1)),
               cubic_weight(distance, T(-0.75)));
    }
  }
  return taps;
}

/// Computes the elements of a `grid_call` in the type `T`.
template <class T, int Axes, int Taps>
struct grid_body {
  using taps = grid_taps<T, Taps>;
  static constexpr int axis_count = Axes;
  static constexpr int tap_count = Taps;
  map_addresses addresses;
  grid_axis axes[Axes];
  grid_borders borders;

  SLUICE_HOST_DEVICE void operator()(const map_layout<3>& layout,
                                     const map_position<3>& position) const noexcept {
    taps along[Axes];
    place(layout, position.offsets[2], along);
    store<overflow::saturates>(layout.types[0], addresses.y, position.offsets[0],
                               sum<0>(layout, along, position.offsets[1]));
  }
  /// The elements around the position at an offset in the grid.
  SLUICE_HOST_DEVICE void place(const map_layout<3>& layout, std::int64_t offset,
                                taps (&along)[Axes]) const noexcept {
    for (int i = 0; i < Axes; ++i) {
      const T coordinate =
          load<T>(layout.types[2], addresses.inputs[1], offset + axes[i].component);
      along[i] = taps_of<T, Taps>(axes[i], borders, coordinate);
    }
  }

 private:
  template <int Axis>
  [[nodiscard]] SLUICE_HOST_DEVICE T sum(const map_layout<3>& layout, const taps (&along)[Axes],
                                         std::int64_t offset) const noexcept {
    if constexpr (Axis == Axes) {
      return load<T>(layout.types[1], addresses.inputs[0], offset);
    } else {
      T total = 0;
      for (int k = 0; k < Taps; ++k) {
        // 0 times NaN or infinity is NaN.
        const T weight = along[Axis].weights[k];
        if (weight == T(0)) continue;
        total += weight * sum<Axis + 1>(layout, along, offset + along[Axis].offsets[k]);
      }
      return total;
    }
  }
};

template <class Run>
int visit(const grid_call& call, const map_addresses& addresses, const Run& run) {
  const auto with_body = [&](auto number, auto axes, auto taps) {
    grid_body<decltype(number), decltype(axes)::value, decltype(taps)::value> body{
        addresses, {}, {call.padding, call.align_corners}};
    for (int i = 0; i < decltype(axes)::value; ++i) body.axes[i] = call.axes[i];
    return run(body, call.layout);
  };
  const auto with_taps = [&](auto number, auto axes) {
    switch (call.mode) {
      case grid_mode::nearest:
        return with_body(number, axes, std::integral_constant<int, 1>());
      case grid_mode::linear:
        return with_body(number, axes, std::integral_constant<int, 2>());
      default:
        return with_body(number, axes, std::integral_constant<int, 4>());
    }
  };
  const auto with_axes = [&](auto number) {
    switch (call.axis_count) {
      case 1:
        return with_taps(number, std::integral_constant<int, 1>());
      case 2:
        return with_taps(number, std::integral_constant<int, 2>());
      default:
        return with_taps(number, std::integral_constant<int, 3>());
    }
  };
  const bool is_double =
      call.layout.types[1] == storage::f64 || call.layout.types[2] == storage::f64;
  return is_double ? with_axes(double{}) : with_axes(float{});
}

}  // namespace sluice::operations
