// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sluice/runtime/error.hpp>
#include <sluice/runtime/source_location.hpp>

#include <cuda_runtime_api.h>

#include <string>

namespace sluice::cuda {

/// The error code of a failed call of the CUDA runtime.
[[nodiscard]] constexpr errc code_of(cudaError_t status) noexcept {
  return status == cudaErrorMemoryAllocation ? errc::out_of_memory : errc::library_failure;
}

/// The error of a failed call of the CUDA runtime.
[[nodiscard]] inline error error_of(cudaError_t status,
                                    source_location location = source_location::current()) {
  return {code_of(status),
          std::string(cudaGetErrorName(status)) + ": " + cudaGetErrorString(status),
          {"CUDA runtime", static_cast<long>(status)},
          location};
}

/// Checks a call of the CUDA runtime. Every checked call passes here or through the device.
/// @throws error `out_of_memory` if `status` is `cudaErrorMemoryAllocation`, with the raw status
/// @throws error `library_failure` for any other failure, with the raw status
inline void check(cudaError_t status, source_location location = source_location::current()) {
  if (status == cudaSuccess) return;
  (void)cudaGetLastError();  // so that an unrelated later call does not return it
  throw error_of(status, location);
}

}  // namespace sluice::cuda
