// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "operations/elementwise/f32_chain.hpp"
#include "operations/elementwise/fused_map.hpp"

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace sluice::host {

/// Functions of a fused map that follow each other: one that is computed alone, or several whose
/// values stay in registers.
struct fused_part {
  /// A step and the values whose addresses it takes.
  struct step {
    f32_step step;
    std::uint8_t a = operations::fused_map::none;
    std::uint8_t b = operations::fused_map::none;
    std::uint8_t y = operations::fused_map::none;
  };
  std::size_t first = 0;
  std::size_t count = 1;
  std::vector<step> steps{};  ///< empty: the function is computed alone
};

/// The time of the functions of an index on one thread.
[[nodiscard]] inline double nanoseconds_of(std::span<const fused_part> parts) noexcept {
  double sum = 0;
  for (const auto& part : parts) {
    sum += part.steps.empty() ? 0.5 : 0.1 * static_cast<double>(part.count);
  }
  return sum;
}

/// The parts of a fused map, in their order.
[[nodiscard]] std::vector<fused_part> parts_of(const operations::fused_map& map);

}  // namespace sluice::host
