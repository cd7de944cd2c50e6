// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

// Kernels include this header, so it compiles as C++17.
namespace sluice {

/// What becomes of an element and an update of it.
enum class scatter_combine : std::uint8_t {
  set,       ///< the update
  add,       ///< their sum
  multiply,  ///< their product
  minimum,   ///< the smaller one; NaN if one is NaN; -0 is smaller than +0
  maximum,   ///< the larger one; NaN if one is NaN; +0 is larger than -0
};

}  // namespace sluice
