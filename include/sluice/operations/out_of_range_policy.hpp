// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

// Kernels include this header, so it compiles as C++17.
namespace sluice {

/// What becomes of an index that is out of range. Only the device can find it, while the launch
/// runs.
enum class out_of_range_policy : std::uint8_t {
  usual,  ///< `error` on the host, `clamp` on a GPU
  clamp,  ///< the nearest index in range is taken
  error,  ///< the request fails with `invalid_argument`, and its results are undefined
};

}  // namespace sluice
