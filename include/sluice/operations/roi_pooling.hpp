// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

// Kernels include this header, so it compiles as C++17.
namespace sluice {

/// What the samples of a bin become; see `roi_align`.
enum class roi_pooling : std::uint8_t {
  average,  ///< their mean
  maximum,  ///< the largest of them
  /// The largest product of an element and its weight, as in the reference implementation of ONNX:
  /// the elements around a sample are not added up.
  maximum_term,
};

}  // namespace sluice
