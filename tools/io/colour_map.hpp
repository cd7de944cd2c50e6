// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "tools/io/canvas.hpp"

namespace sluice::io {

/// The colour of `value` on the perceptually uniform map "magma": black at 0, then purple and
/// orange, pale yellow at 1. Values outside are clamped. NaN is black.
///
/// Source: N. J. Smith and S. van der Walt, https://bids.github.io/colormap/, published under CC0.
/// The table has 33 of the 256 colours. Linear interpolation between them is off by less than
/// 2/255.
[[nodiscard]] colour magma(double value);

}  // namespace sluice::io
