// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

// Kernels include this header, so it compiles as C++17.
namespace sluice {

/// What a reduction makes of many elements. Without elements, a sum is 0, and kinds that have no
/// value refuse X.
enum class reduction : std::uint8_t {
  sum,             ///< their sum
  mean,            ///< their sum divided by their number, of which there is at least one
  max,             ///< the largest of at least one; NaN if one is NaN; +0 is larger than -0
  min,             ///< the smallest of at least one; NaN if one is NaN; -0 is smaller than +0
  product,         ///< their product; 1 without elements
  any,             ///< whether one is not 0; NaN is not 0
  all,             ///< whether none is 0
  l1,              ///< the sum of their absolute values
  l2,              ///< the square root of the sum of their squares
  sum_of_squares,  ///< the sum of their squares
  log_sum,         ///< the natural logarithm of their sum
  log_sum_exp,     ///< the natural logarithm of the sum of exp(x), without overflow
  variance,        ///< the sum of squared differences from the mean over their number
  /// The index of the first max, in row-major order of the reduced dimensions. Zeros of both signs
  /// are equal, and the first NaN comes before all numbers.
  argmax,
  argmin,  ///< likewise of the first min
};
inline constexpr int reduction_count = 15;

}  // namespace sluice
