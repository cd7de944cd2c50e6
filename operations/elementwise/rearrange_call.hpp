// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "operations/elementwise/arithmetic.hpp"
#include "operations/elementwise/map_calls.hpp"
#include "operations/elementwise/strided_map.hpp"

#include <cstdint>

// Elements in another order, and windows as columns. Kernels include this header, so it compiles as
// C++17.
namespace sluice::operations {

/// y[i] = x[first + i], where the strides of x may be negative. Operands: y, x, of equal types.
struct reverse_call {
  map_layout<2> layout{};
  std::int64_t first = 0;  ///< in elements
};

/// Copies elements as `Bits`.
template <class Bits>
struct reverse_body {
  map_addresses addresses;
  std::int64_t first;

  SLUICE_HOST_DEVICE void operator()(const map_layout<2>&,
                                     const map_position<2>& position) const noexcept {
    put_element(addresses.y, position.offsets[0],
                element_at<Bits>(addresses.inputs[0], first + position.offsets[1]));
  }
};

template <class Run>
int visit(const reverse_call& call, const map_addresses& addresses, const Run& run) {
  return visiting::with_bits(call.layout.types[0], [&](auto bits) {
    return run(reverse_body<decltype(bits)>{addresses, call.first}, call.layout);
  });
}

/// Operands: y, x, the lengths, the coordinate along the time. The latter is no memory.
struct reverse_sequence_call {
  map_layout<4> layout{};
  std::int64_t extent = 0;    ///< of the time
  std::int64_t x_stride = 0;  ///< along the time, in elements
};

/// Copies elements as `Bits`.
template <class Bits>
struct reverse_sequence_body {
  map_addresses addresses;
  std::int64_t extent;
  std::int64_t x_stride;

  SLUICE_HOST_DEVICE void operator()(const map_layout<4>& layout,
                                     const map_position<4>& position) const noexcept {
    const auto stated =
        load<std::int64_t>(layout.types[2], addresses.inputs[1], position.offsets[2]);
    const std::int64_t length = stated < extent ? stated : extent;
    const std::int64_t time = position.offsets[3];
    std::int64_t source = position.offsets[1];
    if (time < length) source += (length - 1 - 2 * time) * x_stride;
    put_element(addresses.y, position.offsets[0], element_at<Bits>(addresses.inputs[0], source));
  }
};

template <class Run>
int visit(const reverse_sequence_call& call, const map_addresses& addresses, const Run& run) {
  return visiting::with_bits(call.layout.types[0], [&](auto bits) {
    return run(reverse_sequence_body<decltype(bits)>{addresses, call.extent, call.x_stride},
               call.layout);
  });
}

/// A dimension of images along which windows move. Distances are in elements along the dimension.
struct column_axis {
  std::int64_t extent = 1;    ///< of the images
  std::int64_t windows = 1;   ///< number of windows
  std::int64_t taps = 1;      ///< elements of a window
  std::int64_t step = 1;      ///< between windows
  std::int64_t dilation = 1;  ///< between taps
  std::int64_t before = 0;    ///< padding
};

/// Operands: y, x without its position within an image, row and column of an element of a padded
/// image. The latter two are no memory.
struct im2col_call {
  map_layout<4> layout{};
  column_axis axes[2]{};
  std::int64_t x_strides[2]{};  ///< along rows and columns of x, in elements
};

/// Copies elements as `Bits`.
template <class Bits>
struct im2col_body {
  map_addresses addresses;
  std::int64_t before[2];
  std::int64_t extents[2];
  std::int64_t x_strides[2];

  SLUICE_HOST_DEVICE void operator()(const map_layout<4>&,
                                     const map_position<4>& position) const noexcept {
    const std::int64_t row = position.offsets[2] - before[0];
    const std::int64_t column = position.offsets[3] - before[1];
    Bits value{};
    if (row >= 0 && row < extents[0] && column >= 0 && column < extents[1]) {
      value = element_at<Bits>(addresses.inputs[0],
                               position.offsets[1] + row * x_strides[0] + column * x_strides[1]);
    }
    put_element(addresses.y, position.offsets[0], value);
  }
};

template <class Run>
int visit(const im2col_call& call, const map_addresses& addresses, const Run& run) {
  return visiting::with_bits(call.layout.types[0], [&](auto bits) {
    const auto& [rows, columns] = call.axes;
    return run(im2col_body<decltype(bits)>{addresses,
                                           {rows.before, columns.before},
                                           {rows.extent, columns.extent},
                                           {call.x_strides[0], call.x_strides[1]}},
               call.layout);
  });
}

/// Operands: y, x at the first tap and the first window of an image and a channel, row and column
/// of an element of an image. The latter two are no memory.
struct col2im_call {
  map_layout<4> layout{};
  column_axis axes[2]{};
  std::int64_t tap_stride = 0;     ///< from a tap to the next one of x, in elements
  std::int64_t window_stride = 0;  ///< from a window to the next one of x, in elements

  /// The additions beyond one for each element of the result.
  [[nodiscard]] double work() const noexcept {
    return static_cast<double>(layout.count) * static_cast<double>(axes[0].taps) *
           static_cast<double>(axes[1].taps);
  }
};

/// Computes elements in the type `T`.
template <class T>
struct col2im_body {
  map_addresses addresses;
  column_axis axes[2];
  std::int64_t tap_stride;
  std::int64_t window_stride;

  SLUICE_HOST_DEVICE void operator()(const map_layout<4>& layout,
                                     const map_position<4>& position) const noexcept {
    T total{};
    for (std::int64_t i = 0; i < axes[0].taps; ++i) {
      const std::int64_t row = window_at(axes[0], position.offsets[2], i);
      if (row < 0) continue;
      for (std::int64_t j = 0; j < axes[1].taps; ++j) {
        const std::int64_t column = window_at(axes[1], position.offsets[3], j);
        if (column < 0) continue;
        const std::int64_t source = position.offsets[1] + (i * axes[1].taps + j) * tap_stride +
                                    (row * axes[1].windows + column) * window_stride;
        total = sum(total, load<T>(layout.types[1], addresses.inputs[0], source));
      }
    }
    store<overflow::wraps>(layout.types[0], addresses.y, position.offsets[0], total);
  }

 private:
  /// The window whose tap `tap` is the element at a coordinate; -1 if there is none.
  [[nodiscard]] static SLUICE_HOST_DEVICE std::int64_t window_at(const column_axis& axis,
                                                                 std::int64_t coordinate,
                                                                 std::int64_t tap) noexcept {
    const std::int64_t distance = coordinate + axis.before - tap * axis.dilation;
    if (distance < 0) return -1;
    const auto split = axis.step == 1 ? quotient{distance, 0} : divide(distance, axis.step);
    return split.remainder == 0 && split.value < axis.windows ? split.value : -1;
  }
};

template <class Run>
int visit(const col2im_call& call, const map_addresses& addresses, const Run& run) {
  return visiting::with_compute_type(call.layout.types[0], [&](auto number) {
    return run(
        col2im_body<decltype(number)>{
            addresses, {call.axes[0], call.axes[1]}, call.tap_stride, call.window_stride},
        call.layout);
  });
}

}  // namespace sluice::operations
