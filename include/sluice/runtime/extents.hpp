// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sluice/export.hpp>

#include <array>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <span>
#include <string>

namespace sluice {

/// One number for each dimension of a tensor, outermost first: a shape, strides or axes. At most 8,
/// stored inline.
///
///     const extents shape{3, static_cast<std::int64_t>(ref.size()) / 3};
class SLUICE_EXPORT extents {
 public:
  /// The largest number of dimensions.
  static constexpr std::size_t max_rank = 8;

  constexpr extents() noexcept = default;
  /// The numbers `values`.
  /// @throws error `invalid_argument` if there are more than 8
  // NOLINTNEXTLINE(google-explicit-constructor): written as a list at every call.
  extents(std::initializer_list<std::int64_t> values)
      : extents(std::span<const std::int64_t>(values.begin(), values.size())) {}
  /// The numbers `values`.
  /// @throws error `invalid_argument` if there are more than 8
  explicit extents(std::span<const std::int64_t> values) : rank_(values.size()) {
    if (rank_ > max_rank) refuse_rank(rank_);
    for (std::size_t i = 0; i < rank_; ++i) values_[i] = values[i];
  }

  /// The number of dimensions.
  [[nodiscard]] constexpr std::size_t size() const noexcept { return rank_; }
  /// Whether there is no dimension.
  [[nodiscard]] constexpr bool empty() const noexcept { return rank_ == 0; }
  /// The number of dimension `i`, which is less than `size()`.
  [[nodiscard]] constexpr std::int64_t operator[](std::size_t i) const noexcept {
    return values_[i];
  }
  /// The number of dimension `i`, which is less than `size()`.
  [[nodiscard]] constexpr std::int64_t& operator[](std::size_t i) noexcept { return values_[i]; }
  /// The numbers, one after the other.
  [[nodiscard]] constexpr std::int64_t* data() noexcept { return values_.data(); }
  /// The first number.
  [[nodiscard]] constexpr const std::int64_t* begin() const noexcept { return values_.data(); }
  /// Behind the last number.
  [[nodiscard]] constexpr const std::int64_t* end() const noexcept { return begin() + rank_; }
  /// Appends one number.
  /// @throws error `invalid_argument` if there are 8 already
  void push_back(std::int64_t value) {
    if (rank_ == max_rank) refuse_rank(rank_ + 1);
    values_[rank_++] = value;
  }
  [[nodiscard]] constexpr bool operator==(const extents&) const noexcept = default;

 private:
  friend class tensor_layout;
  /// The first `rank` of `values`; the others are 0.
  constexpr extents(const std::array<std::int64_t, max_rank>& values, std::size_t rank) noexcept
      : values_(values), rank_(rank) {}

  [[noreturn]] static void refuse_rank(std::size_t rank);

  std::array<std::int64_t, max_rank> values_{};  // 0 beyond the rank
  std::size_t rank_ = 0;
};

/// The numbers in brackets: "[2, 3]".
[[nodiscard]] SLUICE_EXPORT std::string to_string(const extents& values);

}  // namespace sluice
