// SPDX-License-Identifier: Apache-2.0
#include "tools/io/colour_map.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>

namespace sluice::io {

namespace {

constexpr std::array<std::uint32_t, 33> magma_colours{
    0x000004, 0x030312, 0x0a0822, 0x130d34, 0x1d1147, 0x29115a, 0x36106b, 0x440f76, 0x51127c,
    0x5d177f, 0x6a1c81, 0x762181, 0x832681, 0x902a81, 0x9c2e7f, 0xaa337d, 0xb73779, 0xc23b75,
    0xcf4070, 0xdb476a, 0xe55064, 0xee5b5e, 0xf4695c, 0xf9785d, 0xfb8761, 0xfd9668, 0xfea571,
    0xfeb47b, 0xfec287, 0xfed194, 0xfde0a1, 0xfceeb0, 0xfcfdbf};

}  // namespace

colour magma(double value) {
  constexpr std::size_t last = magma_colours.size() - 1;
  // The comparison is false for NaN too.
  const double position = value > 0 ? std::min(value, 1.0) * static_cast<double>(last) : 0.0;
  const std::size_t below = std::min(static_cast<std::size_t>(position), last - 1);
  const double fraction = position - static_cast<double>(below);
  const auto component = [&](int shift) {
    const double lower = (magma_colours[below] >> shift) & 0xff;
    const double upper = (magma_colours[below + 1] >> shift) & 0xff;
    return static_cast<std::uint8_t>(std::lround(lower + (upper - lower) * fraction));
  };
  return {component(16), component(8), component(0)};
}

}  // namespace sluice::io
