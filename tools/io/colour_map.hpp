// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

namespace sluice::io {

/// An sRGB colour.
struct colour {
  std::uint8_t red = 0;
  std::uint8_t green = 0;
  std::uint8_t blue = 0;
  [[nodiscard]] bool operator==(const colour&) const noexcept = default;
};

/// The colour of `value` on the perceptually uniform map "magma": black at 0, then purple and
/// orange, pale yellow at 1. Values outside are clamped. NaN is black.
///
/// Source: N. J. Smith and S. van der Walt, https://bids.github.io/colormap/, published under CC0.
/// The table has 33 of the 256 colours. Linear interpolation between them is off by less than
/// 2/255.
[[nodiscard]] colour magma(double value);

}  // namespace sluice::io
