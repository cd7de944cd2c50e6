// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

// Kernels include this header, so it compiles as C++17.
namespace sluice {

/// What a padded tensor has outside of its elements. The comments show 1 2 3 with two elements
/// before it and three behind it.
enum class pad_mode : std::uint8_t {
  constant,  ///< one number: 0 0 1 2 3 0 0 0
  edge,      ///< the nearest element: 1 1 1 2 3 3 3 3
  reflect,   ///< a mirror at the first and the last element: 3 2 1 2 3 2 1 2
  wrap,      ///< the elements again: 2 3 1 2 3 1 2 3
};

}  // namespace sluice
