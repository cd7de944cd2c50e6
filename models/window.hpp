// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "models/node.hpp"

#include <sluice/runtime/extents.hpp>

#include <cstddef>

namespace sluice::models {

/// How a window moves over the spatial dimensions of a tensor of the shape (N, C, D1 … Dk): the
/// attributes that convolutions and pools share.
struct window {
  extents kernel{};
  extents strides{};
  extents dilations{};
  extents before{};
  extents after{};
};

/// Reads the attributes of a node. `kernel` is the extents of the window.
/// @throws error `invalid_argument` if an attribute has not one number for each dimension
[[nodiscard]] window read_window(const node& n, const value& x, const extents& kernel);

}  // namespace sluice::models
