// SPDX-License-Identifier: Apache-2.0
#include "operations/program/scratch_layout.hpp"

#include "operations/aligned.hpp"

#include <algorithm>
#include <iterator>
#include <map>
#include <set>
#include <tuple>
#include <utility>

namespace sluice::operations {
namespace {

/// The number of buffers that are laid out by size, which takes quadratic time.
constexpr std::size_t most_by_size = 512;

/// Lays the largest buffers out first, each at the lowest place that is free while it is needed.
std::size_t lay_out_by_size(std::vector<scratch_buffer>& buffers) {
  std::vector<scratch_buffer*> buffers_by_size;
  buffers_by_size.reserve(buffers.size());
  for (auto& b : buffers) buffers_by_size.push_back(&b);
  std::stable_sort(buffers_by_size.begin(), buffers_by_size.end(),
                   [](const auto* a, const auto* b) { return a->bytes > b->bytes; });
  std::size_t total = 0;
  std::vector<const scratch_buffer*> placed;  // by offset
  for (auto* const b : buffers_by_size) {
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

/// The memory that no buffer has at a moment, in gaps between buffers.
class free_memory {
 public:
  /// Takes `bytes` from the smallest gap that is large enough, or at the end.
  [[nodiscard]] std::size_t take(std::size_t bytes) {
    const auto position = gaps_by_size_.lower_bound({bytes, 0});
    if (position == gaps_by_size_.end()) {
      // A gap at the end becomes larger.
      auto offset = end_;
      if (const auto last =
              gaps_by_offset_.empty() ? gaps_by_offset_.end() : std::prev(gaps_by_offset_.end());
          last != gaps_by_offset_.end() && last->first + last->second == end_) {
        offset = last->first;
        erase(last);
      }
      end_ = offset + bytes;
      return offset;
    }
    const auto [size, offset] = *position;
    erase(gaps_by_offset_.find(offset));
    if (size > bytes) insert(offset + bytes, size - bytes);
    return offset;
  }
  void give_back(std::size_t offset, std::size_t bytes) {
    const auto next_gap = gaps_by_offset_.lower_bound(offset);
    if (next_gap != gaps_by_offset_.begin()) {
      if (const auto previous_gap = std::prev(next_gap);
          previous_gap->first + previous_gap->second == offset) {
        offset = previous_gap->first;
        bytes += previous_gap->second;
        erase(previous_gap);
      }
    }
    if (next_gap != gaps_by_offset_.end() && offset + bytes == next_gap->first) {
      bytes += next_gap->second;
      erase(next_gap);
    }
    insert(offset, bytes);
  }
  [[nodiscard]] std::size_t end() const noexcept { return end_; }

 private:
  void insert(std::size_t offset, std::size_t bytes) {
    gaps_by_offset_.emplace(offset, bytes);
    gaps_by_size_.emplace(bytes, offset);
  }
  void erase(std::map<std::size_t, std::size_t>::iterator gap) {
    gaps_by_size_.erase({gap->second, gap->first});
    gaps_by_offset_.erase(gap);
  }

  std::map<std::size_t, std::size_t> gaps_by_offset_;
  std::set<std::pair<std::size_t, std::size_t>> gaps_by_size_;
  std::size_t end_ = 0;
};

/// Lays the buffers out in the order in which they are needed.
std::size_t lay_out_by_time(std::vector<scratch_buffer>& buffers) {
  std::vector<scratch_buffer*> buffers_by_first;
  buffers_by_first.reserve(buffers.size());
  for (auto& b : buffers) {
    b.last = std::max(b.last, b.first);
    buffers_by_first.push_back(&b);
  }
  auto buffers_by_last = buffers_by_first;
  std::stable_sort(buffers_by_first.begin(), buffers_by_first.end(),
                   [](const auto* a, const auto* b) {
                     return std::tuple(a->first, b->bytes) < std::tuple(b->first, a->bytes);
                   });
  std::stable_sort(buffers_by_last.begin(), buffers_by_last.end(),
                   [](const auto* a, const auto* b) { return a->last < b->last; });
  free_memory memory;
  auto position = buffers_by_last.begin();
  std::size_t total = 0;
  for (auto* const b : buffers_by_first) {
    for (; (*position)->last < b->first; ++position) {
      if ((*position)->bytes != 0)
        memory.give_back((*position)->offset, aligned((*position)->bytes));
    }
    b->offset = b->bytes != 0 ? memory.take(aligned(b->bytes)) : 0;
    total = std::max(total, memory.end());
  }
  return total;
}

}  // namespace

std::size_t lay_out(std::vector<scratch_buffer>& buffers) {
  return buffers.size() <= most_by_size ? lay_out_by_size(buffers) : lay_out_by_time(buffers);
}

}  // namespace sluice::operations
