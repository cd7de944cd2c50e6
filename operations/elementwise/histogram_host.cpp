// SPDX-License-Identifier: Apache-2.0
#include "operations/elementwise/histogram_functions.hpp"
#include "operations/elementwise/host_loop.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <vector>

namespace sluice::host {
namespace {

using operations::histogram_call;
using operations::map_layout;
using operations::map_position;

void count_elements(const histogram_call& call, const map_layout<1>& layout,
                    const map_position<1>& origin, const void* x, std::int64_t* counts) {
  const auto type = layout.types[0];
  for_each_position(layout, origin, [&](const map_position<1>& position) {
    const auto bin = call.bin_of(operations::load<double>(type, x, position.offsets[0]));
    if (bin >= 0) ++counts[bin];
  });
}

}  // namespace

void compute_histogram(const histogram_call& call, const void* x, std::int64_t* counts) {
  std::fill_n(counts, call.bins, 0);
  if (call.layout.count == 0) return;
  constexpr std::int64_t most_of_thread = 1 << 16;
  if (call.bins > most_of_thread) return count_elements(call, call.layout, {}, x, counts);
  std::mutex mutex;
  // A part has more elements than there are bins to be added up.
  for_each_part(call.layout, {.nanoseconds = 4, .least = std::max<std::int64_t>(1024, call.bins)},
                [&](const map_layout<1>& part, const map_position<1>& origin) {
                  std::vector<std::int64_t> own(static_cast<std::size_t>(call.bins));
                  count_elements(call, part, origin, x, own.data());
                  const std::lock_guard lock(mutex);
                  for (std::size_t i = 0; i < own.size(); ++i) counts[i] += own[i];
                });
}

}  // namespace sluice::host
