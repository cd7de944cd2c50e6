// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "operations/elementwise/gather_call.hpp"
#include "operations/elementwise/host_loop.hpp"
#include "operations/elementwise/indices_host.hpp"
#include "operations/elementwise/streamed_stores.hpp"

#include <cstdint>
#include <cstring>

namespace sluice::host {

/// Copies one line of a result. Its indices may differ from element to element.
/// @param streams whether runs of elements are stored past the caches
template <class Bits>
void gather_line(const operations::gather_body<Bits>& body, const operations::map_layout<3>& layout,
                 const operations::map_position<3>& position, bool streams) {
  const int last = layout.rank - 1;
  const auto count = layout.shape[last];
  const auto y_stride = layout.strides[0][last];
  const auto x_stride = layout.strides[1][last];
  const auto index_stride = layout.strides[2][last];
  auto* const y = static_cast<Bits*>(body.addresses.y) + position.offsets[0];
  const auto* const x = static_cast<const Bits*>(body.addresses.inputs[0]) + position.offsets[1];
  const void* const indices = body.addresses.inputs[1];
  if (index_stride == 0) {
    const auto* const source = x + body.indexed.place(indices, position.offsets[2], body.errors);
    if (y_stride == 1 && x_stride == 1) {
      const auto bytes = static_cast<std::size_t>(count) * sizeof(Bits);
      if (streams) {
        stream_bytes(source, bytes, y);
      } else {
        std::memcpy(y, source, bytes);
      }
    } else {
      for (std::int64_t i = 0; i < count; ++i) y[i * y_stride] = source[i * x_stride];
    }
    return;
  }
  // Captured by value: the compiler cannot know that an element of y is none of the strides.
  if (y_stride == 1 && x_stride == 0) {
    for_each_place(body.indexed, indices, position.offsets[2], index_stride, count, body.errors,
                   [x, y](std::int64_t i, std::int64_t place) { y[i] = x[place]; });
  } else {
    for_each_place(
        body.indexed, indices, position.offsets[2], index_stride, count, body.errors,
        [=](std::int64_t i, std::int64_t place) { y[i * y_stride] = x[i * x_stride + place]; });
  }
}

/// Computes a `gather_call`.
template <class Bits>
void gather_lines(const operations::gather_body<Bits>& body,
                  const operations::map_layout<3>& layout) {
  const bool has_runs = layout.strides[2][layout.rank - 1] == 0;
  const map_cost cost{.nanoseconds = has_runs ? 0.5 : 2};
  constexpr auto size = static_cast<std::int64_t>(sizeof(Bits));
  const bool streams =
      has_runs && is_streamed(layout.count * size, layout.shape[layout.rank - 1] * size);
  for_each_part(
      layout, cost,
      [&](const operations::map_layout<3>& part, const operations::map_position<3>& origin) {
        for_each_line(part, origin, [&](const operations::map_position<3>& line) {
          gather_line(body, part, line, streams);
        });
        if (streams) finish_streams();
      });
}

}  // namespace sluice::host
