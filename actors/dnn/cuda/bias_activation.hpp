// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>

namespace sluice::cuda {

/// y = activation(y + bias) in place for y in NCHW order, where each channel has `plane` elements,
/// in one pass. ReLU keeps NaN.
struct bias_activation {
  float* y;
  const float* bias;  ///< `channels` numbers, or null
  std::size_t count;  ///< elements of y
  std::size_t plane;
  std::size_t channels;
  bool relu;
};

/// Launches it on `stream` (a `cudaStream_t`). Returns the launch's `cudaError_t`.
[[nodiscard]] int launch_bias_activation(const bias_activation& operation, void* stream) noexcept;

}  // namespace sluice::cuda
