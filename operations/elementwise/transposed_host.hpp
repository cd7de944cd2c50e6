// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "operations/elementwise/host_loop.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>

namespace sluice::host {

/// The elements of a cache line.
template <class Bits>
inline constexpr std::int64_t line_elements = std::int64_t{64} / std::int64_t{sizeof(Bits)};

/// The dimension along which the elements of x are neighbours, where those of y are neighbours
/// along the last one; -1 if `copy_transposed` is of no use.
template <class Bits>
[[nodiscard]] int transposed_dimension(const operations::map_layout<2>& layout) noexcept {
  const int last = layout.rank - 1;
  if (layout.strides[0][last] != 1 || layout.shape[last] < line_elements<Bits>) return -1;
  for (int d = 0; d < last; ++d) {
    if (layout.strides[1][d] == 1 && layout.shape[d] >= line_elements<Bits>) return d;
  }
  return -1;
}

/// Copies x to y, whose elements are neighbours along two different dimensions: `across` for x and
/// the last one for y. Tiles of whole cache lines keep either side from touching a line twice, and
/// blocks of tiles read several lines of x in turn.
template <class Bits>
void copy_transposed(const operations::map_addresses& addresses,
                     const operations::map_layout<2>& layout,
                     const operations::map_position<2>& origin, int across) {
  constexpr auto edge = line_elements<Bits>;
  constexpr auto block = 4 * edge;
  const int last = layout.rank - 1;
  const auto width = layout.shape[last];
  const auto height = layout.shape[across];
  const auto x_stride = layout.strides[1][last];
  const auto y_stride = layout.strides[0][across];
  auto planes = layout;
  planes.shape[last] = 1;
  planes.shape[across] = 1;
  for_each_position(planes, origin, [&](const operations::map_position<2>& plane) {
    const auto* const x = static_cast<const Bits*>(addresses.inputs[0]) + plane.offsets[1];
    auto* const y = static_cast<Bits*>(addresses.y) + plane.offsets[0];
    const auto copy_tile = [&](std::int64_t top, std::int64_t left) {
      const auto rows = std::min(edge, height - top);
      const auto columns = std::min(edge, width - left);
      Bits tile[edge * edge];
      for (std::int64_t i = 0; i < columns; ++i) {
        std::memcpy(tile + i * edge, x + (left + i) * x_stride + top,
                    static_cast<std::size_t>(rows) * sizeof(Bits));
      }
      for (std::int64_t row = 0; row < rows; ++row) {
        auto* const line = y + (top + row) * y_stride + left;
        for (std::int64_t i = 0; i < columns; ++i) line[i] = tile[i * edge + row];
      }
    };
    for (std::int64_t down = 0; down < height; down += block) {
      for (std::int64_t right = 0; right < width; right += block) {
        for (auto left = right; left < std::min(right + block, width); left += edge) {
          for (auto top = down; top < std::min(down + block, height); top += edge) {
            copy_tile(top, left);
          }
        }
      }
    }
  });
}

}  // namespace sluice::host
