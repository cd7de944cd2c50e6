// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "operations/elementwise/strided_map.hpp"

#include <sluice/operations/pad_mode.hpp>

#include <cstdint>

// Kernels include this header, so it compiles as C++17.
namespace sluice::operations {

/// The element of a line of `extent` elements that stands at the index `i`, which may lie outside
/// of it; -1: a number stands there. Without elements, only of the mode `constant`. With `wrap`,
/// `i` is at least -extent.
[[nodiscard]] SLUICE_HOST_DEVICE inline std::int64_t edge_index(pad_mode mode, std::int64_t i,
                                                                std::int64_t extent) noexcept {
  if (i >= 0 && i < extent) return i;
  if (mode == pad_mode::constant) return -1;
  if (mode == pad_mode::wrap) return divide(i + extent, extent).remainder;
  if (mode == pad_mode::edge || extent == 1) return i < 0 ? 0 : extent - 1;
  const std::int64_t period = 2 * (extent - 1);
  const std::int64_t distance = divide(i < 0 ? -i : i, period).remainder;
  return distance < extent ? distance : period - distance;
}

}  // namespace sluice::operations
