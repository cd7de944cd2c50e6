// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "models/node.hpp"

#include <sluice/runtime/extents.hpp>

#include <string_view>

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

/// The numbers of an attribute, one for each of `missing`, which stands for an attribute that is
/// not given.
/// @throws error `invalid_argument` if there is another number of them, or one does not
/// fit in 32 bits
[[nodiscard]] extents window_numbers(const node& n, std::string_view name, const extents& missing);

/// Reads the attributes of a node. `kernel` is the extents of the window.
/// Products of its numbers do not overflow.
/// @throws error `invalid_argument` if an attribute has not one number for each dimension, or a
/// number or an extent does not fit in 32 bits
[[nodiscard]] window read_window(const node& n, const value& x, const extents& kernel);

}  // namespace sluice::models
