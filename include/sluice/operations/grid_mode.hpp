// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

// Kernels include this header, so it compiles as C++17.
namespace sluice {

/// What a sample is made of; see `grid_sample`.
enum class grid_mode : std::uint8_t {
  nearest,  ///< the nearest element; halfway, the even one
  linear,   ///< the two nearest ones along each axis
  cubic,    ///< the four nearest ones along each axis, by cubic convolution with a = -0.75
};

/// What lies outside of X.
enum class grid_padding : std::uint8_t {
  zeros,       ///< zeros
  border,      ///< the nearest element of X
  reflection,  ///< X, reflected at its borders again and again
};

}  // namespace sluice
