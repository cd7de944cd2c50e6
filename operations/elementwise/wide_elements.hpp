// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "operations/elementwise/strided_map.hpp"

#include <cstdint>

// Several elements that are copied at once, as one of up to 16 bytes. Kernels include this header,
// so it compiles as C++17.
namespace sluice::operations {

/// The number of elements along the last dimension that can be copied at once: their size is at
/// most 16 bytes, both addresses are multiples of it, and so are the strides of the first `copied`
/// operands. `fits(width)` states what else must hold for `width` elements. At least 1.
template <int Operands, class Fits>
[[nodiscard]] int elements_together(const map_layout<Operands>& layout, int copied, int size,
                                    const void* y, const void* x, const Fits& fits) noexcept {
  if (layout.count == 0) return 1;
  const int last = layout.rank - 1;
  const auto addresses = reinterpret_cast<std::uintptr_t>(y) | reinterpret_cast<std::uintptr_t>(x);
  for (int width = 16 / size; width > 1; width /= 2) {
    bool is_whole =
        addresses % static_cast<unsigned>(width * size) == 0 && layout.shape[last] % width == 0;
    for (int k = 0; k < copied; ++k) {
      is_whole = is_whole && layout.strides[k][last] == 1;
      for (int d = 0; d < last; ++d) is_whole = is_whole && layout.strides[k][d] % width == 0;
    }
    if (is_whole && fits(width)) return width;
  }
  return 1;
}

/// Makes one element of `width` elements along the last dimension.
template <int Operands>
void widen(map_layout<Operands>& layout, int copied, int width) noexcept {
  const int last = layout.rank - 1;
  layout.count /= width;
  layout.shape[last] /= width;
  for (int k = 0; k < copied; ++k) {
    for (int d = 0; d < last; ++d) layout.strides[k][d] /= width;
  }
}

}  // namespace sluice::operations
