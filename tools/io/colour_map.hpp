#pragma once

#include "tools/io/canvas.hpp"

namespace sluice::io {

/// The colour of `value` on the perceptually uniform map "magma", from black (0) over purple and
/// orange to pale yellow (1); values outside are clamped, NaN is black.
///
/// Source: N. J. Smith and S. van der Walt, https://bids.github.io/colormap/, published under CC0:
/// 33 of its 256 colours, interpolated linearly (off by less than 2/255 everywhere).
[[nodiscard]] colour magma(double value);

}  // namespace sluice::io
