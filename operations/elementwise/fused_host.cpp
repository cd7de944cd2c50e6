// SPDX-License-Identifier: Apache-2.0
#include "operations/elementwise/fused_blocks.hpp"

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

}  // namespace

void compute_fused(const fused_map& map, std::span<void* const> addresses) {
  if (map.reduced) return compute_fused_reduction(map, addresses);
  // Of an index on one thread: the operands in memory, and each function.
  const map_cost cost{.nanoseconds = 0.5 + 0.5 * static_cast<double>(map.functions.size()),
                      .least = 4 * max_fused_block};
  for_each_part(
      map.layout, cost, [&](const fused_map::layout_type& part, const fused_position& origin) {
        block_evaluator blocks(map, addresses, row_strides(part), column_strides(part));
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
      });
}

}  // namespace sluice::host
