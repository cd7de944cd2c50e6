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
/// be read at once, which operands are repeated, and how elements are reduced, but not on shapes,
/// strides and parameters.
struct kernel_source {
  std::string text{};
  int width = 1;    ///< the elements of a vector, which a thread computes at once
  int vectors = 1;  ///< the vectors whose reads a thread has under way at once
  /// Of a launch.
  ///@{
  std::int64_t blocks = 0;
  std::int32_t lanes = 1;  ///< the threads that reduce a part of a result
  ///@}
};

/// The kernel that computes a map.
[[nodiscard]] kernel_source source_of(const fused_map& map);
/// The blocks of a launch for so many threads.
[[nodiscard]] std::int64_t blocks_for(std::int64_t threads) noexcept;

/// The argument of such a kernel: a `fused_arguments` or a `fused_reduction_arguments`.
struct kernel_argument {
  static constexpr std::size_t indices_words = 2 + fused_dimensions * (1 + fused_map::operands);
  static constexpr std::size_t max_words =
      fused_map::operands + 2 * fused_map::max_functions + 2 * indices_words + 5;
  std::array<std::uint64_t, max_words> words;
};
/// The argument for operands at these addresses, those of the result and of the inputs. Without a
/// reduction in parts, there is no workspace.
[[nodiscard]] kernel_argument argument_of(const fused_map& map, const kernel_source& source,
                                          std::span<void* const> addresses,
                                          void* workspace) noexcept;

}  // namespace sluice::operations
