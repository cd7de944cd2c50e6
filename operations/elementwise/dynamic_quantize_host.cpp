// SPDX-License-Identifier: Apache-2.0
#include "operations/elementwise/f32_loops.hpp"
#include "operations/elementwise/host_loop.hpp"
#include "operations/elementwise/map_functions.hpp"
#include "operations/elementwise/quantize_functions.hpp"

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <mutex>

namespace sluice::host {
namespace {

using operations::bytes_of;
using operations::map_layout;
using operations::map_position;
using operations::storage;
using operations::value_range;

/// The range of elements without gaps.
value_range range_of_run(storage type, const void* x, std::int64_t first, std::int64_t count) {
  constexpr std::int64_t block = 1024;
  std::array<float, block> numbers;
  const auto* const bytes = static_cast<const std::byte*>(x) + first * bytes_of(type);
  value_range range;
  for (std::int64_t i = 0; i < count; i += block) {
    const auto size = std::min(block, count - i);
    const void* const source = bytes + i * bytes_of(type);
    const auto* values = static_cast<const float*>(source);
    if (type != storage::f32) {
      load_f32(type, source, size, numbers.data());
      values = numbers.data();
    }
    range.add(min_f32(values, size), max_f32(values, size));
  }
  return range;
}

/// The range of the elements of a layout.
value_range range_of_part(const map_layout<1>& layout, const map_position<1>& origin,
                          const void* x) {
  const int last = layout.rank - 1;
  const auto type = layout.types[0];
  const auto stride = layout.strides[0][last];
  value_range range;
  for_each_line(layout, origin, [&](const map_position<1>& line) {
    if (stride == 1 || layout.shape[last] == 1) {
      const auto run = range_of_run(type, x, line.offsets[0], layout.shape[last]);
      return range.add(run.least, run.most);
    }
    for (std::int64_t i = 0; i < layout.shape[last]; ++i) {
      const auto value = operations::load<float>(type, x, line.offsets[0] + i * stride);
      range.add(value, value);
    }
  });
  return range;
}

}  // namespace

void compute_dynamic_quantize(const operations::dynamic_quantize_call& call,
                              const operations::dynamic_quantize_addresses& addresses) {
  value_range range;
  if (call.x.count != 0) {
    std::mutex mutex;
    for_each_part(call.x, {.nanoseconds = 0.5},
                  [&](const map_layout<1>& part, const map_position<1>& origin) {
                    const auto found = range_of_part(part, origin, addresses.x);
                    const std::lock_guard lock(mutex);
                    range.add(found.least, found.most);
                  });
  }
  *addresses.scale = range.scale();
  *addresses.zero_point = range.zero_point();
  if (call.x.count != 0) compute_map(call.elements, addresses.of_elements());
}

}  // namespace sluice::host
