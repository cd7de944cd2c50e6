// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "operations/elementwise/strided_map.hpp"

#include <cstdint>

namespace sluice::host {

/// Calls `visit` with the positions at each index of a layout with at least one, in order.
template <int Operands, class Visit>
void for_each_position(const operations::map_layout<Operands>& layout, const Visit& visit) {
  operations::map_position<Operands> position{};
  std::int64_t index[operations::max_dimensions]{};
  const int last = layout.rank - 1;
  while (true) {
    auto inner = position;
    for (std::int64_t i = 0; i < layout.shape[last]; ++i) {
      visit(static_cast<const operations::map_position<Operands>&>(inner));
      for (int k = 0; k < Operands; ++k) inner.offsets[k] += layout.strides[k][last];
    }
    int d = last - 1;
    for (; d >= 0; --d) {
      if (++index[d] < layout.shape[d]) break;
      index[d] = 0;
      for (int k = 0; k < Operands; ++k) {
        position.offsets[k] -= (layout.shape[d] - 1) * layout.strides[k][d];
      }
    }
    if (d < 0) return;
    for (int k = 0; k < Operands; ++k) position.offsets[k] += layout.strides[k][d];
  }
}

}  // namespace sluice::host
