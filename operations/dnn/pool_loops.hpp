// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "operations/elementwise/f32_loops.hpp"

#include <cstdint>

// Windows over rows without gaps of f32, with the largest vectors of the processor.
namespace sluice::host {

/// Neighbouring windows over some rows, `step` elements apart.
struct window_line {
  std::int64_t count = 1;   ///< windows
  std::int64_t window = 1;  ///< elements of a row
  std::int64_t step = 1;    ///< 1; or 2, and then `window` is even
};

/// y[i] = the largest element of window i, and NaN if it has a NaN. There is at least one row.
void max_windows_f32(const f32_rows& rows, const window_line& line, float* y);

}  // namespace sluice::host
