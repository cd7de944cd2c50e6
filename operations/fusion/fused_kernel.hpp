// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "operations/elementwise/strided_map.hpp"

#include <sluice/host_device_code.hpp>

#include <cstdint>

// Between generated kernels and their launches, so it compiles as C++17.
namespace sluice::operations {

inline constexpr int fused_threads = 256;  // of a block
inline constexpr int fused_dimensions = 8;

/// The indices of a kernel, with the strides of the operands in elements.
template <int Operands>
struct fused_indices {
  std::int64_t count;
  std::int64_t rank;
  std::int64_t shape[fused_dimensions];
  std::int64_t strides[Operands][fused_dimensions];
};

/// The argument of a generated kernel: 64-bit words, which a launch puts one after the other.
/// `Operands` are the result and the inputs.
template <int Operands, int Functions>
struct fused_arguments {
  void* addresses[Operands];
  std::uint64_t parameters[Functions][2];  ///< bits, in the compute type of the function
  /// But for the count, not read if all operands lie alike without gaps.
  fused_indices<Operands> indices;
};

/// The argument of a generated kernel that ends with a reduction; likewise.
template <int Operands, int Functions>
struct fused_reduction_arguments {
  void* addresses[Operands];
  std::uint64_t parameters[Functions][2];
  fused_indices<Operands> results;
  fused_indices<Operands> elements;  ///< of each result, of which they have no stride
  /// See `reduce_call`.
  ///@{
  std::int64_t lanes;
  std::int64_t parts;
  std::int64_t part_length;
  std::int64_t correction;
  ///@}
  void* workspace;  ///< for the values of the parts, if there are several
};

/// The positions of the operands, in elements, at the first of `width` indices along the last
/// dimension, whose extent is a multiple of it. `number` counts these vectors.
template <int Operands>
[[nodiscard]] SLUICE_HOST_DEVICE inline map_position<Operands> vector_position(
    const fused_indices<Operands>& indices, std::int64_t number, std::int64_t width) noexcept {
  map_position<Operands> position{};
#if defined(__CUDA_ARCH__)
#pragma unroll 1
#endif
  for (auto d = indices.rank - 1; d >= 0; --d) {
    auto index = number;
    if (d > 0) {
      const auto split = divide(number, indices.shape[d] / width);
      index = split.remainder;
      number = split.value;
    }
    for (int k = 0; k < Operands; ++k) {
      position.offsets[k] += index * width * indices.strides[k][d];
    }
    width = 1;
  }
  return position;
}

}  // namespace sluice::operations
