// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "operations/elementwise/strided_map.hpp"

#include <cstdint>

// Rotations of pairs of elements. Kernels include this header, so it compiles as C++17.
namespace sluice {
struct native_stream;
}

namespace sluice::operations {

/// A rotary embedding. A row is a head of one element of a sequence. Operand 0 is y and operand 1
/// is x. Operands 2 and 3 are cos and sin, or the positions and nothing.
struct rotary_call {
  map_layout<4> rows{};
  std::int64_t pairs = 0;           ///< of a row
  std::int64_t copied = 0;          ///< elements after the pairs
  std::int64_t strides[4]{};        ///< along a row: of y, x, cos and sin
  std::int64_t cache_rows = 0;      ///< rows of cos and sin that positions select
  std::int64_t cache_strides[2]{};  ///< between the rows of cos and of sin
  bool has_positions = false;
  bool interleaved = false;

  /// The elements of a pair in a row.
  ///@{
  [[nodiscard]] SLUICE_HOST_DEVICE std::int64_t first_of(std::int64_t pair) const noexcept {
    return interleaved ? 2 * pair : pair;
  }
  [[nodiscard]] SLUICE_HOST_DEVICE std::int64_t second_of(std::int64_t pair) const noexcept {
    return interleaved ? 2 * pair + 1 : pair + pairs;
  }
  ///@}
};

/// The operands of a rotary embedding; `positions` is nullptr if not given.
struct rotary_addresses {
  void* y = nullptr;
  const void* x = nullptr;
  const void* cos = nullptr;
  const void* sin = nullptr;
  const void* positions = nullptr;
};

/// Where the cosines and the sines of a row begin.
struct rotary_angles {
  std::int64_t cos = 0;
  std::int64_t sin = 0;
  bool exist = true;  ///< otherwise the position selects no row
};
[[nodiscard]] SLUICE_HOST_DEVICE inline rotary_angles angles_of(
    const rotary_call& call, const void* positions, const map_position<4>& row) noexcept {
  if (!call.has_positions) return {row.offsets[2], row.offsets[3], true};
  const auto position = element_at<std::int64_t>(positions, row.offsets[2]);
  if (position < 0 || position >= call.cache_rows) return {0, 0, false};
  return {position * call.cache_strides[0], position * call.cache_strides[1], true};
}

/// Loads the kernels. Returns a `cudaError_t`.
[[nodiscard]] int load_rotary();

/// Queues a rotary embedding with at least one element on a stream of the current device. Returns a
/// `cudaError_t`.
[[nodiscard]] int launch_rotary(const rotary_call& call, const rotary_addresses& addresses,
                                native_stream* stream);

}  // namespace sluice::operations
