// SPDX-License-Identifier: Apache-2.0
#include "operations/elementwise/fused_blocks.hpp"
#include "operations/elementwise/streamed_stores.hpp"

#include <algorithm>

namespace sluice::host {
namespace {

using namespace operations;

/// Writes a block of results whose elements have gaps.
void put_results(const block_evaluator& blocks, storage type, void* y, const void* results,
                 const fused_position& position, std::int64_t height, std::int64_t width) {
  (void)visiting::with_bits(type, [&](auto bits) {
    blocks.for_each_index(0, position.offsets[0], height, width,
                          [&](std::int64_t i, std::int64_t element) {
                            put_element(y, element, element_at<decltype(bits)>(results, i));
                          });
    return 0;
  });
}

/// Whether the result is large, has no gaps, and is at the address of no input.
bool streams(const fused_map& map, std::span<void* const> addresses) {
  const auto& layout = map.layout;
  return is_streamed(layout.count * bytes_of(layout.types[0])) && layout.rank == 1 &&
         layout.strides[0][0] == 1 &&
         std::find(addresses.begin() + 1, addresses.end(), addresses[0]) == addresses.end();
}

}  // namespace

void compute_fused(const fused_map& map, std::span<void* const> addresses) {
  if (map.reduced) return compute_fused_reduction(map, addresses);
  const auto functions = parts_of(map);
  // Of an index on one thread: the operands in memory, and the functions.
  const map_cost cost{.nanoseconds = 0.5 + nanoseconds_of(functions), .least = 4 * max_fused_block};
  const bool is_streamed = streams(map, addresses);
  for_each_part(
      map.layout, cost, [&](const fused_map::layout_type& part, const fused_position& origin) {
        block_evaluator blocks(map, functions, addresses, row_strides(part), column_strides(part),
                               is_streamed);
        for_each_block(
            part, origin, blocks.size(),
            [&](const fused_position& position, std::int64_t height, std::int64_t width) {
              if (blocks.has_no_gaps(0, height, width)) {
                (void)blocks.evaluate(position, height, width,
                                      blocks.address(0, position.offsets[0]));
                return;
              }
              const auto* const results = blocks.evaluate(position, height, width);
              put_results(blocks, part.types[0], addresses[0], results, position, height, width);
            });
        if (is_streamed) finish_streams();
      });
}

}  // namespace sluice::host
