#pragma once

#include <sluice/runtime/small_vector.hpp>

#include <algorithm>
#include <cstddef>

namespace sluice::detail {

/// A list without duplicates that takes O(n log n) comparisons for n additions.
///
/// `Rules::before(a, b)` is a strict weak order. `Rules::absorb(known, added)` merges an element
/// into an equal one; the order in which elements are merged must not matter.
///
/// A list of up to `Inline` elements keeps the order of addition, is searched at each addition and
/// needs no heap. A longer one takes elements without a search, and merges duplicates when its size
/// has doubled since the last time, and in `sort` and `size`.
template <class T, class Rules, std::size_t Inline>
class merged_list {
 public:
  /// @throws std::bad_alloc
  void add(const T& added) {
    if (items_.size() <= Inline && !unmerged_) {
      for (auto& known : items_) {
        if (!Rules::before(known, added) && !Rules::before(added, known)) {
          Rules::absorb(known, added);
          return;
        }
      }
    } else if (items_.size() >= merge_at_) {
      merge();
    }
    items_.push_back(added);
    unmerged_ = items_.size() > Inline;
    sorted_ = false;
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
    merge_at_ = first_merge;
  }
  /// Gives the heap memory of more than `most` elements back. On an empty list.
  void shrink(std::size_t most) noexcept {
    if (items_.capacity() > most) items_ = {};
  }

  // After `sort` or `size`.
  [[nodiscard]] T* begin() noexcept { return items_.begin(); }
  [[nodiscard]] T* end() noexcept { return items_.end(); }
  [[nodiscard]] T& operator[](std::size_t i) noexcept { return items_[i]; }

 private:
  static constexpr std::size_t first_merge = 8 * Inline;

  void merge() noexcept {
    if (!std::is_sorted(items_.begin(), items_.end(), Rules::before)) {
      std::sort(items_.begin(), items_.end(), Rules::before);
    }
    std::size_t kept = 0;
    for (std::size_t i = 0; i < items_.size(); ++i) {
      if (kept != 0 && !Rules::before(items_[kept - 1], items_[i])) {
        Rules::absorb(items_[kept - 1], items_[i]);
      } else {
        items_[kept++] = items_[i];
      }
    }
    items_.truncate(kept);
    merge_at_ = std::max(first_merge, 2 * kept);
    unmerged_ = false;
    sorted_ = true;
  }

  small_vector<T, Inline> items_;
  std::size_t merge_at_ = first_merge;
  bool unmerged_ = false;
  bool sorted_ = false;
};

}  // namespace sluice::detail
