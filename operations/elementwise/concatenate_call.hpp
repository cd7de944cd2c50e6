// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstdint>

// Kernels include this header, so it compiles as C++17.
namespace sluice::operations {

/// The largest number of tensors that are concatenated.
inline constexpr int max_pieces = 63;

/// Each row of y is a row of each x, one behind the other. Sizes are in bytes.
struct concatenate_call {
  std::int64_t rows = 0;                               ///< 0: there is nothing to copy
  std::int64_t row_bytes = 0;                          ///< of y
  std::int32_t pieces = 0;                             ///< number of x
  std::array<std::int64_t, max_pieces> piece_bytes{};  ///< of a row of each x
};

/// The addresses of a launch.
struct concatenate_addresses {
  std::array<const void*, max_pieces> x{};  ///< not read if the piece has no bytes
  void* y = nullptr;
};

}  // namespace sluice::operations
