// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sluice/export.hpp>
#include <sluice/runtime/element_type.hpp>
#include <sluice/runtime/extents.hpp>

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

namespace sluice {

/// The bytes [first, last) of a block.
struct byte_extent {
  std::size_t first = 0;  ///< the first byte
  std::size_t last = 0;   ///< behind the last byte
  [[nodiscard]] bool operator==(const byte_extent&) const noexcept = default;
};

/// How the elements of a tensor lie in memory: element type, shape, strides and the position of the
/// first element, without the memory. `tensor` has the meaning of each property and of each view.
class SLUICE_EXPORT tensor_layout {
 public:
  /// One dimension without elements.
  tensor_layout() noexcept = default;
  /// A row-major layout without gaps, from byte 0.
  /// @throws error `invalid_argument` if an extent is negative, the size in bytes overflows, or
  /// `type` is not an enumerator
  tensor_layout(element_type type, const extents& shape);
  /// A layout with the given strides, from byte `offset`.
  /// @throws error `invalid_argument` if an extent or a stride is negative, there are not as many
  /// strides as extents, the size of all elements overflows, repeated ones included, or `type` is
  /// not an enumerator
  tensor_layout(element_type type, const extents& shape, const extents& strides,
                std::size_t offset = 0);

  [[nodiscard]] bool operator==(const tensor_layout&) const noexcept = default;

  /// The type of an element.
  [[nodiscard]] element_type type() const noexcept { return type_; }
  /// The number of dimensions.
  [[nodiscard]] std::size_t rank() const noexcept { return rank_; }
  /// The number of elements along each dimension.
  [[nodiscard]] extents shape() const noexcept { return {shape_, rank_}; }
  /// The distance between neighbours along each dimension, in elements.
  [[nodiscard]] extents strides() const noexcept { return {strides_, rank_}; }
  /// The number of elements.
  [[nodiscard]] std::size_t size() const noexcept;
  /// The size of all elements in bytes, without gaps.
  [[nodiscard]] std::size_t bytes() const noexcept { return size() * size_of(type_); }
  /// Whether there are no elements.
  [[nodiscard]] bool empty() const noexcept { return size() == 0; }
  /// The position of the first element in bytes.
  [[nodiscard]] std::size_t offset() const noexcept { return offset_; }
  /// The bytes from the first to the last element, gaps included.
  [[nodiscard]] byte_extent extent() const noexcept;
  /// Whether the elements lie in row-major order without gaps or repetitions.
  [[nodiscard]] bool is_contiguous() const noexcept;

  /// The views of `tensor`, with the same errors.
  ///@{
  [[nodiscard]] tensor_layout reshape(const extents& shape) const;
  [[nodiscard]] tensor_layout permute(const extents& axes) const;
  [[nodiscard]] tensor_layout transposed() const;
  [[nodiscard]] tensor_layout slice(std::size_t axis, std::int64_t first,
                                    std::optional<std::int64_t> last = {},
                                    std::int64_t step = 1) const;
  [[nodiscard]] tensor_layout select(std::size_t axis, std::int64_t index) const;
  [[nodiscard]] tensor_layout broadcast_to(const extents& shape) const;
  [[nodiscard]] tensor_layout reinterpret(element_type type) const;
  ///@}

 private:
  friend class tensor;
  /// `count` elements in one dimension.
  tensor_layout(element_type type, std::size_t count, std::size_t offset) noexcept
      : offset_(offset), shape_{static_cast<std::int64_t>(count)}, type_(type) {}

  [[nodiscard]] std::span<const std::int64_t> shape_numbers() const noexcept {
    return {shape_.data(), rank_};
  }
  [[nodiscard]] std::span<const std::int64_t> stride_numbers() const noexcept {
    return {strides_.data(), rank_};
  }
  void assign(const extents& shape, const extents& strides) noexcept;
  /// Makes the layout a default one.
  void reset() noexcept {
    offset_ = 0;
    shape_.fill(0);
    strides_.fill(0);
    strides_[0] = 1;
    rank_ = 1;
    type_ = element_type::u8;
  }
  void normalize_strides() noexcept;
  void check() const;

  std::size_t offset_ = 0;
  // 0 beyond the rank. The default is one dimension without elements.
  std::array<std::int64_t, extents::max_rank> shape_{};
  std::array<std::int64_t, extents::max_rank> strides_{1};
  std::uint8_t rank_ = 1;
  element_type type_ = element_type::u8;
};

}  // namespace sluice
