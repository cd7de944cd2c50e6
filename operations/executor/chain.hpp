// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <utility>

namespace sluice::operations {

/// A list of objects that hold their own links, `next` and `previous`. It owns nothing.
template <class T>
class chain {
 public:
  [[nodiscard]] T* first() const noexcept { return first_; }
  [[nodiscard]] T* last() const noexcept { return last_; }
  [[nodiscard]] bool empty() const noexcept { return first_ == nullptr; }
  void push_back(T& one) noexcept { insert_behind(last_, one); }
  /// Inserts `one` behind `earlier`; nullptr: at the beginning.
  void insert_behind(T* earlier, T& one) noexcept {
    one.previous = earlier;
    one.next = std::exchange(earlier != nullptr ? earlier->next : first_, &one);
    (one.next != nullptr ? one.next->previous : last_) = &one;
  }
  void erase(T& one) noexcept {
    (one.previous != nullptr ? one.previous->next : first_) = one.next;
    (one.next != nullptr ? one.next->previous : last_) = one.previous;
    one.next = one.previous = nullptr;
  }

 private:
  T* first_ = nullptr;
  T* last_ = nullptr;
};

}  // namespace sluice::operations
