// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "operations/elementwise/strided_map.hpp"

#include <sluice/host_device_code.hpp>

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

/// The positions of the operands, in elements, at the first of `width` indices along the last
/// dimension, whose extent is a multiple of it. `number` counts these vectors.
template <int Operands, int Functions>
[[nodiscard]] SLUICE_HOST_DEVICE inline map_position<Operands> vector_position(
    const fused_arguments<Operands, Functions>& arguments, std::int64_t number,
    std::int64_t width) noexcept {
  map_position<Operands> position{};
#if defined(__CUDA_ARCH__)
#pragma unroll 1
#endif
  for (auto d = arguments.rank - 1; d >= 0; --d) {
    auto index = number;
    if (d > 0) {
      const auto split = divide(number, arguments.shape[d] / width);
      index = split.remainder;
      number = split.value;
    }
    for (int k = 0; k < Operands; ++k) {
      position.offsets[k] += index * width * arguments.strides[k][d];
    }
    width = 1;
  }
  return position;
}

}  // namespace sluice::operations
