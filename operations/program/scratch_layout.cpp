// SPDX-License-Identifier: Apache-2.0
#include "operations/program/scratch_layout.hpp"

#include "operations/aligned.hpp"

#include <algorithm>

namespace sluice::operations {
namespace {}  // namespace

std::size_t lay_out(std::vector<scratch_buffer>& buffers) {
  std::vector<scratch_buffer*> by_size;
  by_size.reserve(buffers.size());
  for (auto& b : buffers) by_size.push_back(&b);
  std::stable_sort(by_size.begin(), by_size.end(),
                   [](const auto* a, const auto* b) { return a->bytes > b->bytes; });
  std::size_t total = 0;
  std::vector<const scratch_buffer*> placed;  // by offset
  for (auto* const b : by_size) {
    std::size_t offset = 0;
    for (const auto* const other : placed) {
      if (other->last < b->first || b->last < other->first) continue;
      if (offset + b->bytes <= other->offset) break;
      offset = std::max(offset, aligned(other->offset + other->bytes));
    }
    b->offset = offset;
    placed.insert(
        std::upper_bound(placed.begin(), placed.end(), b,
                         [](const auto* x, const auto* y) { return x->offset < y->offset; }),
        b);
    total = std::max(total, aligned(offset + b->bytes));
  }
  return total;
}

}  // namespace sluice::operations
