// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sluice/runtime/error.hpp>
#include <sluice/runtime/source_location.hpp>

#include <cudnn.h>

#include <string>

namespace sluice::operations {

/// Whether cuDNN answers that it cannot do something. From version 9 on the thousands of a status
/// are its category.
[[nodiscard]] inline bool is_unsupported(cudnnStatus_t status) noexcept {
  return status / 1000 == CUDNN_STATUS_NOT_SUPPORTED / 1000;
}

/// The one way in which cuDNN is called: check_cudnn(cudnnCreate(...), "cudnnCreate").
/// @throws error with the raw status unless `status` is success: `unsupported` if cuDNN cannot do
/// it, else `library_failure`
inline void check_cudnn(cudnnStatus_t status, const char* call,
                        source_location location = source_location::current()) {
  if (status == CUDNN_STATUS_SUCCESS) return;
  throw error(is_unsupported(status) ? errc::unsupported : errc::library_failure,
              std::string(call) + ": " + cudnnGetErrorString(status),
              library_status{"cuDNN", static_cast<long>(status)}, location);
}

}  // namespace sluice::operations
