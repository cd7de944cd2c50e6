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
  void push_back(T& object) noexcept { insert_behind(last_, object); }
  /// Inserts `object` behind `earlier`; nullptr: at the beginning.
  void insert_behind(T* earlier, T& object) noexcept {
    object.previous = earlier;
    object.next = std::exchange(earlier != nullptr ? earlier->next : first_, &object);
    (object.next != nullptr ? object.next->previous : last_) = &object;
  }
  void erase(T& object) noexcept {
    (object.previous != nullptr ? object.previous->next : first_) = object.next;
    (object.next != nullptr ? object.next->previous : last_) = object.previous;
    object.next = object.previous = nullptr;
  }

 private:
  T* first_ = nullptr;
  T* last_ = nullptr;
};

}  // namespace sluice::operations
