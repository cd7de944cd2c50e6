// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "operations/elementwise/functors.hpp"
#include "operations/elementwise/storage.hpp"

#include <cstdint>

// Factors of 8 bits as factors of 16 bits. Kernels include this header, so it compiles as C++17.
namespace sluice {
struct native_stream;
}

namespace sluice::operations {

/// A stack of matrices, each of lines without gaps between their elements, and its copy, whose
/// matrices have no gaps between them.
struct converted_factor {
  const void* elements = nullptr;  ///< of `type`
  void* copy = nullptr;            ///< aligned to 16 bytes
  std::int64_t matrices = 0;
  std::int64_t lines = 0;         ///< of a matrix
  std::int64_t length = 0;        ///< of a line
  std::int64_t leading = 1;       ///< distance between lines
  std::int64_t distance = 0;      ///< distance between matrices
  std::int64_t copy_leading = 8;  ///< distance between lines of the copy, a multiple of 8
  storage type = storage::e4m3;   ///< e4m3 or e5m2
  zeros_behind<std::int64_t, sizeof(storage)> zeros{};

  /// Vectors of eight elements in a matrix of the copy.
  [[nodiscard]] SLUICE_HOST_DEVICE std::int64_t vectors() const noexcept {
    return lines * (copy_leading / 8);
  }
};

/// Copies of two factors, and the numbers by which their products and the previous result are
/// multiplied.
struct float8_conversion {
  converted_factor factors[2]{};
  storage type = storage::f16;  ///< of the copies, f16 or bf16
  zeros_behind<std::int64_t, sizeof(storage)> zeros{};
  const float* scales[2]{};  ///< of one element; nullptr stands for 1
  float alpha = 1;
  float beta = 0;
  float* numbers = nullptr;  ///< the products of alpha and the scales, and beta
};

/// Loads the kernel. Returns a `cudaError_t`.
[[nodiscard]] int load_float8_conversion();

/// Queues a conversion with at least one element on a stream of the current device. Returns a
/// `cudaError_t`.
[[nodiscard]] int launch_float8_conversion(const float8_conversion& conversion,
                                           native_stream* stream);

}  // namespace sluice::operations
