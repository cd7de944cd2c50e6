// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

// Kernels include this header, so it compiles as C++17.
namespace sluice {

/// What a pool makes of the elements of a window. Padding is no element.
enum class pooling : std::uint8_t {
  maximum,  ///< the largest; NaN if one is NaN; +0 is larger than -0
  average,  ///< their sum divided by their number
  lp,       ///< the p-th root of the sum of |x|^p
};

}  // namespace sluice
