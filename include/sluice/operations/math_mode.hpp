// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

namespace sluice {

/// How products of f32 numbers are computed.
enum class math_mode : std::uint8_t {
  f32,   ///< in f32
  tf32,  ///< factors may be rounded to TF32 (10 bits of fraction) where this is faster
};

}  // namespace sluice
