// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "operations/elementwise/strided_map.hpp"
#include "runtime/seam.hpp"

#include <algorithm>
#include <cstdint>

namespace sluice::host {

/// Calls `visit` with the positions at each index of a layout with at least one, in order. The
/// first one is `origin`.
template <int Operands, class Visit>
void for_each_position(const operations::map_layout<Operands>& layout,
                       const operations::map_position<Operands>& origin, const Visit& visit) {
  auto position = origin;
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
template <int Operands, class Visit>
void for_each_position(const operations::map_layout<Operands>& layout, const Visit& visit) {
  for_each_position(layout, {}, visit);
}

/// Likewise with the positions at each index of all dimensions but the last.
template <int Operands, class Visit>
void for_each_line(operations::map_layout<Operands> layout,
                   const operations::map_position<Operands>& origin, const Visit& visit) {
  if (--layout.rank == 0) return visit(origin);
  for_each_position(layout, origin, visit);
}

/// What a part of a map costs.
struct map_cost {
  double nanoseconds = 1;  ///< estimated time of an index on one thread
  std::int64_t least =
      1024;  ///< indices in a part, below which parts would be slower than the whole
};

/// Divides a layout with at least one index and calls `function(part, origin)` for each part, on
/// the threads of the device. A part is a layout of the same dimensions with smaller extents; its
/// first index has the positions `origin`. The parts depend on the layout and the cost alone.
template <int Operands, class Function>
void for_each_part(const operations::map_layout<Operands>& layout, const map_cost& cost,
                   const Function& function) {
  if (static_cast<double>(layout.count) * cost.nanoseconds < work_chunks::least_nanoseconds) {
    return function(layout, operations::map_position<Operands>{});
  }
  // The fewest leading dimensions with enough indices for all threads.
  constexpr std::int64_t enough = 64;
  std::int64_t items = layout.shape[0];
  int cut = 0;
  while (items < enough && cut < layout.rank - 1) items *= layout.shape[++cut];
  const auto inner = layout.count / items;
  const auto extent = layout.shape[cut];
  const work_chunks chunks(items, cost.nanoseconds * static_cast<double>(inner),
                           (cost.least + inner - 1) / inner);
  parallel_for(chunks.count(), [&](std::int64_t chunk) {
    auto [begin, end] = chunks[chunk];
    auto part = layout;
    for (int d = 0; d < cut; ++d) part.shape[d] = 1;
    while (begin < end) {
      part.shape[cut] = std::min(end - begin, extent - begin % extent);
      part.count = part.shape[cut] * inner;
      operations::map_position<Operands> origin{};
      auto rest = begin;
      for (int d = cut; d >= 0; --d) {
        for (int k = 0; k < Operands; ++k) {
          origin.offsets[k] += rest % layout.shape[d] * layout.strides[k][d];
        }
        rest /= layout.shape[d];
      }
      function(static_cast<const operations::map_layout<Operands>&>(part),
               static_cast<const operations::map_position<Operands>&>(origin));
      begin += part.shape[cut];
    }
  });
}

}  // namespace sluice::host
