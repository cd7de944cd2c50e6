// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sluice/export.hpp>
#include <sluice/runtime/element_type.hpp>
#include <sluice/runtime/extents.hpp>
#include <sluice/runtime/tensor.hpp>

#include <cstddef>

namespace sluice {

/// The properties of a tensor that do not depend on its memory.
struct SLUICE_EXPORT tensor_spec {
  /// The largest alignment that is told apart, in bytes. Allocations have it.
  static constexpr std::size_t max_alignment = 256;

  element_type type = element_type::u8;   ///< type of an element
  extents shape{};                        ///< number of elements along each dimension
  extents strides{};                      ///< distance of neighbours, in elements
  std::size_t alignment = max_alignment;  ///< power of two that divides the first address

  /// The properties of `value`.
  [[nodiscard]] static tensor_spec of(const tensor& value) noexcept;
  /// The properties of a new row-major tensor.
  /// @throws error `invalid_argument` if an extent is negative, the size in bytes overflows, or
  /// `type` is not an enumerator
  [[nodiscard]] static tensor_spec row_major(element_type type, const extents& shape);

  /// The number of dimensions.
  [[nodiscard]] std::size_t rank() const noexcept { return shape.size(); }
  /// The number of elements.
  [[nodiscard]] std::size_t size() const noexcept;
  /// The size of all elements in bytes, without gaps.
  [[nodiscard]] std::size_t bytes() const noexcept { return size() * size_of(type); }
  /// Whether the elements lie in row-major order without gaps.
  [[nodiscard]] bool is_contiguous() const noexcept;
  /// Whether two indices may stand for the same element, as after `tensor::broadcast_to`. True
  /// also for strides that interleave dimensions.
  [[nodiscard]] bool repeats_elements() const noexcept;
  [[nodiscard]] bool operator==(const tensor_spec&) const noexcept = default;
};

}  // namespace sluice
