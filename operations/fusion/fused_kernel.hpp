// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

// Between generated kernels and their launches, so it compiles as C++17.
namespace sluice::operations {

inline constexpr int fused_threads = 256;  // of a block
inline constexpr int fused_dimensions = 8;

/// The argument of a generated kernel: 64-bit words, which a launch puts one after the other.
/// `Operands` are the result and the inputs.
template <int Operands, int Functions>
struct fused_arguments {
  std::int64_t count;
  void* addresses[Operands];
  std::uint64_t parameters[Functions][2];  ///< bits, in the compute type of the function
  /// Strides are counted in elements. Not read if all operands lie alike without gaps.
  ///@{
  std::int64_t rank;
  std::int64_t shape[fused_dimensions];
  std::int64_t strides[Operands][fused_dimensions];
  ///@}
};

}  // namespace sluice::operations
