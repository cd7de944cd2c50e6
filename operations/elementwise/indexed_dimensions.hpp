// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "operations/elementwise/storage.hpp"
#include "operations/elementwise/strided_map.hpp"

#include <sluice/host_device_code.hpp>
#include <sluice/runtime/error_word.hpp>

#include <cstdint>

// Places in a tensor that a tensor of indices names. Kernels include this header, so it compiles as
// C++17.
namespace sluice::operations {

/// An index along a dimension of some extent, counted from the end if it is negative.
struct resolved_index {
  std::int64_t value;  ///< clamped into the extent
  bool is_valid;       ///< whether it was in range

  SLUICE_HOST_DEVICE resolved_index(std::int64_t index, std::int64_t extent) noexcept
      : value(index < 0 ? index + extent : index), is_valid(value >= 0 && value < extent) {
    if (!is_valid) value = value < 0 ? 0 : extent - 1;
  }
};

/// The dimensions of a tensor that indices name, one number for each of them.
struct indexed_dimensions {
  std::int32_t count = 1;
  storage index_type = storage::i64;       ///< i32 or i64
  std::int64_t index_stride = 0;           ///< from the index of a dimension to the next one
  std::int64_t extents[max_dimensions]{};  ///< of the tensor
  std::int64_t strides[max_dimensions]{};  ///< of the tensor, in elements

  [[nodiscard]] SLUICE_HOST_DEVICE std::int64_t index_at(const void* indices,
                                                         std::int64_t position) const noexcept {
    return index_type == storage::i64 ? element_at<std::int64_t>(indices, position)
                                      : element_at<std::int32_t>(indices, position);
  }
  /// The place that the indices from `position` on name, in elements. Indices out of range are
  /// reported and clamped.
  [[nodiscard]] SLUICE_HOST_DEVICE std::int64_t place(const void* indices, std::int64_t position,
                                                      const index_report& errors) const noexcept {
    std::int64_t offset = 0;
#if defined(__CUDA_ARCH__)
#pragma unroll 1
#endif
    for (int d = 0; d < count; ++d) {
      const auto index = index_at(indices, position + d * index_stride);
      const resolved_index resolved(index, extents[d]);
      if (!resolved.is_valid) errors.report(index, position + d * index_stride, extents[d]);
      offset += resolved.value * strides[d];
    }
    return offset;
  }

  /// Whether all strides are multiples of `width`.
  [[nodiscard]] bool has_strides_of(int width) const noexcept {
    for (int d = 0; d < count; ++d) {
      if (strides[d] % width != 0) return false;
    }
    return true;
  }
  /// Counts strides in units of `width` elements.
  void widen(int width) noexcept {
    for (int d = 0; d < count; ++d) strides[d] /= width;
  }
};

}  // namespace sluice::operations
