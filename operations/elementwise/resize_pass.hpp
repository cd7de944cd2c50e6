// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "operations/elementwise/resize_axis.hpp"
#include "operations/elementwise/strided_map.hpp"

#include <cmath>
#include <cstdint>

// Kernels include this header, so it compiles as C++17.
namespace sluice::operations {

/// An interpolation along some axes. Operands: y, x at index 0 of the axes, and the index of y
/// along each axis. The latter are no memory: their positions are the indices.
struct resize_pass {
  static constexpr int max_axes = 3;
  map_layout<2 + max_axes> layout{};
  resize_axis axes[max_axes]{};
  std::int32_t axis_count = 1;
  resize_filter filter{};
  double extrapolation = 0;
};

/// Computes the elements of an interpolation along `Axes` axes in the type `T`.
template <class T, int Axes>
struct resize_body {
  map_addresses addresses;
  resize_axis axes[Axes];
  resize_filter filter;
  T extrapolation;

  SLUICE_HOST_DEVICE void operator()(const map_layout<2 + Axes>& layout,
                                     const map_position<2 + Axes>& position) const noexcept {
    resize_taps<T> taps[Axes];
    bool is_cropped = false;
    for (int i = 0; i < Axes; ++i) {
      taps[i] = taps_of<T>(axes[i], filter, position.offsets[2 + i]);
      is_cropped = is_cropped || taps[i].count == 0;
    }
    T value = is_cropped ? extrapolation : sum<0>(layout, taps, position.offsets[1]);
    if (layout.types[0] == storage::u8 || layout.types[0] == storage::i8) value = rounded(value);
    store<overflow::saturates>(layout.types[0], addresses.y, position.offsets[0], value);
  }

  [[nodiscard]] SLUICE_HOST_DEVICE static T rounded(T value) noexcept {
#if defined(__CUDA_ARCH__)
    return ::rint(value);
#else
    return std::rint(value);
#endif
  }

 private:
  /// The weighted sum along the axes from `Axis` on.
  template <int Axis>
  [[nodiscard]] SLUICE_HOST_DEVICE T sum(const map_layout<2 + Axes>& layout,
                                         const resize_taps<T> (&taps)[Axes],
                                         std::int64_t offset) const noexcept {
    if constexpr (Axis == Axes) {
      return load<T>(layout.types[1], addresses.inputs[0], offset);
    } else {
      const auto& axis = axes[Axis];
      const auto& along = taps[Axis];
      if (along.count == 1) {
        return sum<Axis + 1>(layout, taps, offset + axis.inside(along.first) * axis.stride);
      }
      T total = 0;
      T weights = 0;
      bool has_terms = false;
      for (std::int64_t k = 0; k < along.count; ++k) {
        const auto place = axis.inside(along.first + k);
        if (filter.excludes_outside && place != along.first + k) continue;
        // 0 times NaN or infinity is NaN.
        const T weight = weight_of(axis, filter, along, k);
        if (weight == 0) continue;
        const T term = weight * sum<Axis + 1>(layout, taps, offset + place * axis.stride);
        total = has_terms ? total + term : term;
        weights += weight;
        has_terms = true;
      }
      return filter.normalizes(axis) ? total / weights : total;
    }
  }
};

/// Calls `run` with the body for a number of axes.
template <int Axes, class Run>
int visit_axes(const resize_pass& pass, const map_addresses& addresses, const Run& run) {
  map_layout<2 + Axes> layout;
  layout.count = pass.layout.count;
  layout.rank = pass.layout.rank;
  for (int d = 0; d < pass.layout.rank; ++d) layout.shape[d] = pass.layout.shape[d];
  for (int k = 0; k < 2 + Axes; ++k) {
    layout.types[k] = pass.layout.types[k];
    for (int d = 0; d < pass.layout.rank; ++d) layout.strides[k][d] = pass.layout.strides[k][d];
  }
  const auto with_type = [&](auto number) {
    using type = decltype(number);
    resize_body<type, Axes> body{addresses, {}, pass.filter, static_cast<type>(pass.extrapolation)};
    for (int i = 0; i < Axes; ++i) body.axes[i] = pass.axes[i];
    return run(body, layout);
  };
  if (layout.types[0] == storage::f64) return with_type(double{});
  return with_type(float{});
}

template <class Run>
int visit(const resize_pass& pass, const map_addresses& addresses, const Run& run) {
  switch (pass.axis_count) {
    case 1:
      return visit_axes<1>(pass, addresses, run);
    case 2:
      return visit_axes<2>(pass, addresses, run);
    default:
      return visit_axes<3>(pass, addresses, run);
  }
}

}  // namespace sluice::operations
