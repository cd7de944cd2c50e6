// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "operations/elementwise/host_loop.hpp"
#include "operations/elementwise/rearrange_call.hpp"

#include <cstddef>
#include <cstdint>
#include <cstring>

namespace sluice::host {

/// Computes a `reverse_call`. Lines without gaps are copied as one.
template <class Bits>
void copy_reversed(const operations::reverse_body<Bits>& body,
                   const operations::map_layout<2>& layout) {
  const int last = layout.rank - 1;
  const auto y_stride = layout.strides[0][last];
  const auto x_stride = layout.strides[1][last];
  auto* const y = static_cast<Bits*>(body.addresses.y);
  const auto* const x = static_cast<const Bits*>(body.addresses.inputs[0]) + body.first;
  for_each_part(
      layout, {.nanoseconds = 1},
      [&](const operations::map_layout<2>& part, const operations::map_position<2>& origin) {
        const auto length = part.shape[last];  // of a part of a line if there are few lines
        for_each_line(part, origin, [&](const operations::map_position<2>& line) {
          auto* const target = y + line.offsets[0];
          const auto* const source = x + line.offsets[1];
          if (y_stride == 1 && x_stride == 1) {
            std::memcpy(target, source, static_cast<std::size_t>(length) * sizeof(Bits));
          } else {
            for (std::int64_t i = 0; i < length; ++i) target[i * y_stride] = source[i * x_stride];
          }
        });
      });
}

}  // namespace sluice::host
