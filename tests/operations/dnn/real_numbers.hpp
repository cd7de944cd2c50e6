// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sluice/runtime/element_type.hpp>

#include <array>
#include <cmath>
#include <cstdint>

namespace sluice::test {

inline constexpr std::array real_types{element_type::f16, element_type::bf16, element_type::f32,
                                       element_type::f64};

/// How far a result may be from `wanted`, which it stands for. `magnitude` is that of the numbers
/// from which it is computed.
[[nodiscard]] inline long double bound_of(element_type type, long double wanted,
                                          long double magnitude, std::int64_t count) {
  const long double last = type == element_type::f16    ? 0x1p-11L
                           : type == element_type::bf16 ? 0x1p-8L
                           : type == element_type::f32  ? 0x1p-24L
                                                        : 0x1p-53L;
  // Computed in f32: beside the rounding of the result, a few units of f32.
  const long double computed = type == element_type::f64 ? 0x1p-53L : 0x1p-24L;
  const long double smallest = type == element_type::f16 ? 0x1p-25L : 0x1p-133L;
  return std::abs(wanted) * last +
         magnitude * computed * (16 + std::sqrt(static_cast<long double>(count))) + smallest;
}

}  // namespace sluice::test
