// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "operations/elementwise/storage.hpp"

#include <sluice/operations/activation.hpp>

#include <cstddef>

namespace sluice {
struct native_stream;
}

namespace sluice::operations {

/// y = activation(y + bias + residual), in place and in one pass, computed in f32. ReLU keeps NaN.
struct bias_activation {
  storage type;  ///< f16, bf16 or f32
  void* y;
  const void* bias;               ///< `channels` numbers, or null
  const void* residual;           ///< images in the order of those of y, or null
  std::size_t count;              ///< elements of y
  std::size_t image;              ///< elements of one image
  std::size_t distance;           ///< between images, in elements
  std::size_t residual_distance;  ///< between images of the residual, in elements
  std::size_t channels;           ///< channels of an image
  std::size_t channel_stride;     ///< between elements of neighbouring channels
  bool overwrites;                ///< 0 stands for the previous y, which is not read
  activation function;
};

/// Loads the kernels. Returns a `cudaError_t`.
[[nodiscard]] int load_bias_activation_kernels() noexcept;

/// Enqueues `operation` on a stream of the current device. Returns a `cudaError_t`.
[[nodiscard]] int launch_bias_activation(const bias_activation& operation,
                                         native_stream* stream) noexcept;

}  // namespace sluice::operations
