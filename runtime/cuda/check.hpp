// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sluice/runtime/error.hpp>
#include <sluice/runtime/source_location.hpp>

#include <cuda_runtime_api.h>

#include <string>

namespace sluice::cuda {

/// The code under which a failed runtime call is reported.
[[nodiscard]] constexpr errc code_of(cudaError_t status) noexcept {
  return status == cudaErrorMemoryAllocation ? errc::out_of_memory : errc::library_failure;
}

/// The error of a failed runtime call.
[[nodiscard]] inline error error_of(cudaError_t status,
                                    source_location where = source_location::current()) {
  return {code_of(status),
          std::string(cudaGetErrorName(status)) + ": " + cudaGetErrorString(status),
          {"CUDA runtime", static_cast<long>(status)},
          where};
}

/// The one way to call the CUDA runtime. @throws error `out_of_memory` or `library_failure` with
/// the raw status
inline void check(cudaError_t status, source_location where = source_location::current()) {
  if (status == cudaSuccess) return;
  (void)cudaGetLastError();  // do not leave it to an unrelated later call
  throw error_of(status, where);
}

}  // namespace sluice::cuda
