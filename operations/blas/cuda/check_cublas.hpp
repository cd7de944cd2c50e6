// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sluice/runtime/error.hpp>
#include <sluice/runtime/source_location.hpp>

#include <cublas_v2.h>

#include <string>

namespace sluice::cuda {

/// The one way in which cuBLAS is called: check_cublas(cublasSgemm(...), "cublasSgemm").
/// @throws error `library_failure` with the raw status unless `status` is success
inline void check_cublas(cublasStatus_t status, const char* call,
                         source_location location = source_location::current()) {
  if (status == CUBLAS_STATUS_SUCCESS) return;
  throw error(errc::library_failure,
              std::string(call) + ": " + cublasGetStatusName(status) + " (" +
                  cublasGetStatusString(status) + ")",
              library_status{"cuBLAS", static_cast<long>(status)}, location);
}

}  // namespace sluice::cuda
