// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sluice/runtime/small_vector.hpp>

#include <algorithm>
#include <cstddef>

namespace sluice::detail {

/// A list without duplicates. n additions take O(n log n) comparisons.
///
///     merged_list<use, one_per_block, 8> uses;
///     uses.add(read_of_x);
///     uses.add(write_of_x);  // absorbed by the first element
///     uses.sort();
///
/// `Rules::before(a, b)` is a strict weak order, and `Rules::same(a, b)` is its equivalence.
/// `Rules::absorb(known, added)` merges an element into an equal one. The result must not depend on
/// the order of merging.
///
/// A list of up to `Inline` elements keeps the order of addition, is searched at each addition, and
/// needs no heap memory. A longer list adds without a search. It merges duplicates in `sort`, in
/// `size`, and whenever its size has doubled since the last merge. Not thread-safe.
template <class T, class Rules, std::size_t Inline>
class merged_list {
 public:
  /// Adds an element, or merges it into an equal one.
  /// @throws std::bad_alloc
  void add(const T& element) {
    if (items_.size() <= Inline && !unmerged_) {
      for (auto& item : items_) {
        if (Rules::same(item, element)) {
          Rules::absorb(item, element);
          return;
        }
      }
    } else if (items_.size() >= merge_threshold_) {
      merge();
    }
    items_.push_back(element);
    unmerged_ = items_.size() > Inline;
    sorted_ = false;
  }

  /// Prepares for about `count` elements, which are then merged once.
  /// @throws std::bad_alloc
  void expect(std::size_t count) {
    items_.reserve(count);
    merge_threshold_ = std::max(merge_threshold_, 2 * count);
  }

  [[nodiscard]] bool empty() const noexcept { return items_.empty(); }
  /// The number of distinct elements. May change the order.
  [[nodiscard]] std::size_t size() noexcept {
    if (unmerged_) merge();
    return items_.size();
  }
  void sort() noexcept {
    if (!sorted_) merge();
  }
  [[nodiscard]] std::size_t capacity() const noexcept { return items_.capacity(); }
  void clear() noexcept {
    items_.clear();
    unmerged_ = sorted_ = false;
    merge_threshold_ = first_merge;
  }
  /// Releases heap memory for more than `limit` elements. The list must be empty.
  void shrink(std::size_t limit) noexcept {
    if (items_.capacity() > limit) items_ = {};
  }

  // Valid after `sort` or `size`.
  [[nodiscard]] T* begin() noexcept { return items_.begin(); }
  [[nodiscard]] T* end() noexcept { return items_.end(); }
  [[nodiscard]] T& operator[](std::size_t i) noexcept { return items_[i]; }

 private:
  static constexpr std::size_t first_merge = 8 * Inline;

  void merge() noexcept {
    if (!std::is_sorted(items_.begin(), items_.end(), Rules::before)) {
      std::sort(items_.begin(), items_.end(), Rules::before);
    }
    sorted_ = true;
    if (!unmerged_) return;
    auto* last = items_.begin();
    for (auto* next = last + 1; next < items_.end(); ++next) {
      if (Rules::same(*last, *next)) {
        Rules::absorb(*last, *next);
      } else if (++last != next) {
        *last = *next;
      }
    }
    items_.truncate(static_cast<std::size_t>(last + 1 - items_.begin()));
    merge_threshold_ = std::max(first_merge, 2 * items_.size());
    unmerged_ = false;
  }

  small_vector<T, Inline> items_;
  std::size_t merge_threshold_ = first_merge;
  bool unmerged_ = false;
  bool sorted_ = false;
};

}  // namespace sluice::detail
