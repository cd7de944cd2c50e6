// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "operations/elementwise/indexed_dimensions.hpp"

#include <sluice/runtime/error.hpp>

#include <cstdint>
#include <string>

namespace sluice::host {

/// @throws error `invalid_argument`
[[noreturn]] inline void refuse_index(std::int64_t index, std::int64_t extent) {
  throw invalid_argument("indices", std::to_string(index) + " is out of range for the extent " +
                                        std::to_string(extent));
}

/// The place that the indices from `position` on name.
/// @throws error `invalid_argument` if one of them is out of range
[[nodiscard]] inline std::int64_t valid_place(const operations::indexed_dimensions& indexed,
                                              const void* indices, std::int64_t position) {
  std::int64_t place = 0;
  for (int d = 0; d < indexed.count; ++d) {
    const auto index = indexed.index_at(indices, position + d * indexed.index_stride);
    const operations::resolved_index resolved(index, indexed.extents[d]);
    if (!resolved.is_valid) refuse_index(index, indexed.extents[d]);
    place += resolved.value * indexed.strides[d];
  }
  return place;
}

/// Calls `visit(i, place)` with the places that `count` groups of indices name, which lie `stride`
/// elements apart.
/// @throws error `invalid_argument` if an index is out of range
template <class Visit>
void for_each_place(const operations::indexed_dimensions& indexed, const void* indices,
                    std::int64_t position, std::int64_t stride, std::int64_t count,
                    const Visit& visit) {
  if (indexed.count != 1) {
    for (std::int64_t i = 0; i < count; ++i) {
      visit(i, valid_place(indexed, indices, position + i * stride));
    }
    return;
  }
  const auto visit_each = [visit, stride, count, extent = indexed.extents[0],
                           distance = indexed.strides[0]](const auto* first) {
    for (std::int64_t i = 0; i < count; ++i) {
      const std::int64_t index = first[i * stride];
      const std::int64_t resolved = index < 0 ? index + extent : index;
      if (static_cast<std::uint64_t>(resolved) >= static_cast<std::uint64_t>(extent)) {
        refuse_index(index, extent);
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
