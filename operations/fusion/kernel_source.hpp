// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "operations/elementwise/fused_map.hpp"
#include "operations/fusion/fused_kernel.hpp"

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

namespace sluice::operations {

/// A kernel of a fused map as text. It depends on the functions, the types, how many elements can
/// be read at once, and which operands are repeated, but not on shapes, strides and parameters.
struct kernel_source {
  std::string text{};
  int width = 1;    ///< the elements of a vector, which a thread computes at once
  int vectors = 1;  ///< the vectors whose reads a thread has under way at once
};

/// The kernel that computes a map.
[[nodiscard]] kernel_source source_of(const fused_map& map);

/// The argument of such a kernel: a `fused_arguments`.
struct kernel_argument {
  static constexpr std::size_t max_words = 2 + fused_map::operands * (1 + fused_dimensions) +
                                           2 * fused_map::max_functions + fused_dimensions;
  std::array<std::uint64_t, max_words> words;
};
/// The argument for operands at these addresses, those of the result and of the inputs.
[[nodiscard]] kernel_argument argument_of(const fused_map& map,
                                          std::span<void* const> addresses) noexcept;

}  // namespace sluice::operations
