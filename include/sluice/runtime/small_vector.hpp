// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstring>
#include <memory>
#include <span>
#include <type_traits>
#include <utility>

namespace sluice::detail {

/// A vector of trivially copyable elements that stores up to `Inline` of them without the heap.
///
/// It keeps heap memory once allocated, until it is destroyed or moved from.
template <class T, std::size_t Inline>
class small_vector {
  static_assert(std::is_trivially_copyable_v<T>);

 public:
  small_vector() noexcept = default;
  small_vector(small_vector&& other) noexcept { *this = std::move(other); }
  small_vector& operator=(small_vector&& other) noexcept {
    if (this == &other) return *this;
    size_ = other.size_;
    heap_ = std::move(other.heap_);
    capacity_ = std::exchange(other.capacity_, Inline);
    if (!heap_) std::copy_n(other.inline_.data(), size_, inline_.data());
    other.size_ = 0;
    return *this;
  }
  small_vector(const small_vector& other) { append(other.view()); }
  small_vector& operator=(const small_vector& other) {
    if (this != &other) {
      clear();
      append(other.view());
    }
    return *this;
  }
  ~small_vector() = default;

  [[nodiscard]] std::size_t size() const noexcept { return size_; }
  [[nodiscard]] bool empty() const noexcept { return size_ == 0; }
  /// The number of elements that fit without another heap allocation.
  [[nodiscard]] std::size_t capacity() const noexcept { return capacity_; }
  [[nodiscard]] T* data() noexcept { return heap_ ? heap_.get() : inline_.data(); }
  [[nodiscard]] const T* data() const noexcept { return heap_ ? heap_.get() : inline_.data(); }
  [[nodiscard]] T* begin() noexcept { return data(); }
  [[nodiscard]] T* end() noexcept { return data() + size_; }
  [[nodiscard]] const T* begin() const noexcept { return data(); }
  [[nodiscard]] const T* end() const noexcept { return data() + size_; }
  [[nodiscard]] T& operator[](std::size_t i) noexcept { return data()[i]; }
  [[nodiscard]] const T& operator[](std::size_t i) const noexcept { return data()[i]; }
  [[nodiscard]] T& back() noexcept { return data()[size_ - 1]; }
  [[nodiscard]] std::span<T> view() noexcept { return {data(), size_}; }
  [[nodiscard]] std::span<const T> view() const noexcept { return {data(), size_}; }

  void clear() noexcept { size_ = 0; }
  /// Keeps the first `count` elements. `count` is at most `size()`.
  void truncate(std::size_t count) noexcept { size_ = count; }
  /// Makes room for `count` elements.
  /// @throws std::bad_alloc if the host has no memory
  void reserve(std::size_t count) {
    if (count <= capacity_) return;
    const auto new_capacity = std::max(count, capacity_ * 2);
    auto storage = std::make_unique<T[]>(new_capacity);
    std::copy_n(data(), size_, storage.get());
    heap_ = std::move(storage);
    capacity_ = new_capacity;
  }
  /// Appends `value`, which may be an element of the vector.
  /// @throws std::bad_alloc if the host has no memory
  void push_back(const T& value) {
    if (size_ < capacity_) {
      data()[size_++] = value;
      return;
    }
    const T copy = value;  // may be an element
    reserve(size_ + 1);
    data()[size_++] = copy;
  }
  void append(std::span<const T> values) {
    reserve(size_ + values.size());
    std::copy(values.begin(), values.end(), data() + size_);
    size_ += values.size();
  }
  /// Removes the element at `i` and moves the last element to its place.
  void swap_remove(std::size_t i) noexcept { data()[i] = data()[--size_]; }

 private:
  std::size_t size_ = 0;
  std::size_t capacity_ = Inline;
  std::unique_ptr<T[]> heap_;
  std::array<T, Inline> inline_{};
};

}  // namespace sluice::detail
