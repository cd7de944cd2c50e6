// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "operations/elementwise/resize_pass.hpp"

#include <sluice/operations/operation.hpp>

#include <array>
#include <cstddef>
#include <cstdint>

namespace sluice::operations {

/// A resized tensor: the shape of y, and axes along which that of x differs.
struct resize_call {
  /// What the plan depends on.
  struct {
    std::int64_t workspace_bytes = 0;
  } key{};
  element_type type = element_type::f32;
  std::int32_t axis_count = 0;
  std::int64_t count = 0;  ///< elements of y
  extents shape{};         ///< of y
  extents y_strides{};
  extents x_strides{};
  std::array<std::size_t, resize_pass::max_axes> dimensions{};  ///< of the axes
  resize_axis axes[resize_pass::max_axes]{};
  resize_filter filter{};
  double extrapolation = 0;

  /// Whether a pass along each axis takes fewer steps than one along all of them: results have many
  /// elements each.
  [[nodiscard]] bool is_separable() const noexcept;
  [[nodiscard]] launch_facts facts() const noexcept;
};

/// All axes in one pass, from x to y.
[[nodiscard]] resize_pass whole_pass(const resize_call& call);

/// A pass along one axis. Between passes, numbers lie in scratch memory.
struct separate_pass {
  resize_pass pass{};
  std::int64_t source = 0;  ///< the offset of its x in scratch memory, in bytes
  std::int64_t target = 0;  ///< the offset of its y, likewise
};
/// The passes of a separable call, one for each axis, the one that shrinks x the most first. The
/// first one reads x, and the last one writes y.
[[nodiscard]] std::array<separate_pass, resize_pass::max_axes> separate_passes(
    const resize_call& call);
/// The size of the scratch memory in bytes. The largest number if it overflows.
[[nodiscard]] std::int64_t scratch_bytes(const resize_call& call);

}  // namespace sluice::operations
