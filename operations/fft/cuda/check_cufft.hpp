// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sluice/runtime/error.hpp>
#include <sluice/runtime/source_location.hpp>

#include <cufft.h>

#include <string>

namespace sluice::operations {

/// The one door for cuFFT's answers.
/// @throws error `out_of_memory` (CUFFT_ALLOC_FAILED), `unsupported` (a size, type or feature that
/// cuFFT does not take), `library_failure` for anything else that is not success
inline void check_cufft(cufftResult result, source_location location = source_location::current()) {
  if (result == CUFFT_SUCCESS) return;
  errc code = errc::library_failure;
  if (result == CUFFT_ALLOC_FAILED) code = errc::out_of_memory;
  if (result == CUFFT_INVALID_SIZE || result == CUFFT_NOT_SUPPORTED ||
      result == CUFFT_NOT_IMPLEMENTED || result == CUFFT_INVALID_TYPE) {
    code = errc::unsupported;
  }
  throw error(code, "cuFFT answered " + std::to_string(static_cast<int>(result)),
              {"cuFFT", static_cast<long>(result)}, location);
}

}  // namespace sluice::operations
