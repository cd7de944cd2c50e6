// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "runtime/cuda/check.hpp"

#include <sluice/runtime/device.hpp>
#include <sluice/runtime/device_runtime.hpp>

namespace sluice::cuda {

/// Kernels of ours, loaded, as an object of a lane. `Load` returns a `cudaError_t`.
template <auto* Load>
struct loaded_kernels {
  loaded_kernels(device_runtime& runtime, stream_ref) {
    const current_device_scope current(runtime.device());
    check(static_cast<cudaError_t>(Load()));
  }
};

}  // namespace sluice::cuda
