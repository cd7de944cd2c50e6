// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "operations/elementwise/edge_index.hpp"
#include "operations/elementwise/map_calls.hpp"
#include "operations/elementwise/strided_map.hpp"

#include <sluice/operations/pad_mode.hpp>

#include <cstdint>
#include <cstring>

// Tensors whose elements are those of another one at other indices. Kernels include this header, so
// it compiles as C++17.
namespace sluice::operations {

/// One dimension of a padded tensor.
struct pad_dimension {
  std::int64_t extent = 1;    ///< of y
  std::int64_t stride = 0;    ///< of y, in elements
  std::int64_t x_extent = 1;  ///< at least 1 unless the mode is `constant`
  std::int64_t x_stride = 0;
  std::int64_t before = 0;  ///< elements of y before those of x; in [0, x_extent) for mode `wrap`

  [[nodiscard]] SLUICE_HOST_DEVICE bool is_plain() const noexcept {
    return before == 0 && extent == x_extent;
  }
  /// The index of x at an index of y; -1 if it is none of x.
  [[nodiscard]] SLUICE_HOST_DEVICE std::int64_t source(pad_mode mode,
                                                       std::int64_t index) const noexcept {
    return edge_index(mode, index - before, x_extent);
  }
};

/// The dimensions of a padded tensor, with falling strides of y.
struct pad_layout {
  std::int64_t count = 0;  ///< number of elements of y
  std::int32_t rank = 1;
  pad_mode mode = pad_mode::constant;
  storage types[1]{};
  std::int64_t first = 0;  ///< the first element of x that is used
  pad_dimension dimensions[max_dimensions]{};
};

/// The places of an element in y and in x, in elements.
struct pad_position {
  std::int64_t y;
  std::int64_t x;  ///< -1: it is none of x
};
[[nodiscard]] SLUICE_HOST_DEVICE inline pad_position position_of(const pad_layout& layout,
                                                                 std::int64_t index) noexcept {
  pad_position position{0, layout.first};
#if defined(__CUDA_ARCH__)
#pragma unroll 1
#endif
  for (int d = layout.rank - 1; d >= 0; --d) {
    const auto& dimension = layout.dimensions[d];
    const auto split = d > 0 ? divide(index, dimension.extent) : quotient{0, index};
    index = split.value;
    position.y += split.remainder * dimension.stride;
    const auto source = dimension.source(layout.mode, split.remainder);
    position.x = source < 0 || position.x < 0 ? -1 : position.x + source * dimension.x_stride;
  }
  return position;
}

/// y[i] = x[f(i)] or a number. Operands: y, x, of equal types.
struct pad_call {
  pad_layout layout{};
  unsigned char value[16]{};  ///< the number, in as many copies as 16 bytes hold

  /// The number of elements along the last dimension that are copied at once.
  [[nodiscard]] int elements_together(const map_addresses& addresses) const noexcept {
    const int size = bytes_of(layout.types[0]);
    const int last = layout.rank - 1;
    const auto& line = layout.dimensions[last];
    const bool moves_lines = layout.mode == pad_mode::constant || layout.mode == pad_mode::wrap;
    if (layout.count == 0 || line.stride != 1 || line.x_stride != 1) return 1;
    if (!moves_lines && !line.is_plain()) return 1;
    const auto together = reinterpret_cast<std::uintptr_t>(addresses.y) |
                          reinterpret_cast<std::uintptr_t>(addresses.inputs[0]);
    for (int width = 16 / size; width > 1; width /= 2) {
      // A power of two divides all numbers if it divides the bits of any of them.
      std::int64_t bits = line.extent | line.x_extent | line.before | layout.first;
      for (int d = 0; d < last; ++d) {
        bits |= layout.dimensions[d].stride | layout.dimensions[d].x_stride;
      }
      if (bits % width == 0 && together % static_cast<unsigned>(width * size) == 0) return width;
    }
    return 1;
  }
};

/// Computes the elements of a `pad_call`, which are copied as `Bits`.
template <class Bits>
struct pad_body {
  map_addresses addresses;
  Bits value;

  SLUICE_HOST_DEVICE void operator()(const pad_layout&, const pad_position& place) const noexcept {
    put_element(addresses.y, place.y,
                place.x < 0 ? value : element_at<Bits>(addresses.inputs[0], place.x));
  }
};

template <class Run>
int visit(const pad_call& call, const map_addresses& addresses, const Run& run) {
  auto layout = call.layout;
  const int width = call.elements_together(addresses);
  const int last = layout.rank - 1;
  layout.count /= width;
  layout.first /= width;
  for (int d = 0; d < last; ++d) {
    layout.dimensions[d].stride /= width;
    layout.dimensions[d].x_stride /= width;
  }
  layout.dimensions[last].extent /= width;
  layout.dimensions[last].x_extent /= width;
  layout.dimensions[last].before /= width;
  return visiting::with_bits(width * bytes_of(layout.types[0]), [&](auto bits) {
    std::memcpy(&bits, call.value, sizeof bits);
    return run(pad_body<decltype(bits)>{addresses, bits}, layout);
  });
}

}  // namespace sluice::operations
