// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "operations/elementwise/indexed_dimensions.hpp"

#include <cstdint>

namespace sluice::host {

/// Calls `visit(i, place)` with the places that `count` groups of indices name, which lie `stride`
/// elements apart. Indices out of range are reported and clamped.
template <class Visit>
void for_each_place(const operations::indexed_dimensions& indexed, const void* indices,
                    std::int64_t position, std::int64_t stride, std::int64_t count,
                    const index_report& errors, const Visit& visit) {
  if (indexed.count != 1) {
    for (std::int64_t i = 0; i < count; ++i) {
      visit(i, indexed.place(indices, position + i * stride, errors));
    }
    return;
  }
  const auto visit_each = [&errors, visit, stride, count, position, extent = indexed.extents[0],
                           distance = indexed.strides[0]](const auto* first) {
    for (std::int64_t i = 0; i < count; ++i) {
      const std::int64_t index = first[i * stride];
      std::int64_t resolved = index < 0 ? index + extent : index;
      if (static_cast<std::uint64_t>(resolved) >= static_cast<std::uint64_t>(extent)) {
        errors.report(index, position + i * stride, extent);
        resolved = resolved < 0 ? 0 : extent - 1;
      }
      visit(i, resolved * distance);
    }
  };
  if (indexed.index_type == operations::storage::i64) {
    visit_each(static_cast<const std::int64_t*>(indices) + position);
  } else {
    visit_each(static_cast<const std::int32_t*>(indices) + position);
  }
}

}  // namespace sluice::host
