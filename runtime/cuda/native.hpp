// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sluice/runtime/device.hpp>

#include <cuda_runtime_api.h>

namespace sluice::cuda {

// The native handles of a CUDA device are those of the CUDA runtime.
inline cudaStream_t as_stream(native_stream* stream) noexcept {
  return reinterpret_cast<cudaStream_t>(stream);
}
inline cudaEvent_t as_event(native_event* event) noexcept {
  return reinterpret_cast<cudaEvent_t>(event);
}
inline cudaEvent_t as_event(native_timestamp* stamp) noexcept {
  return reinterpret_cast<cudaEvent_t>(stamp);
}

/// Whether every later call fails after `status`, and nothing runs any more.
inline bool sticky(cudaError_t status) noexcept {
  switch (static_cast<int>(status)) {
    case cudaErrorIllegalAddress:
    case cudaErrorLaunchFailure:
    case cudaErrorLaunchTimeout:
    case cudaErrorAssert:
    case cudaErrorHardwareStackError:
    case cudaErrorIllegalInstruction:
    case cudaErrorMisalignedAddress:
    case cudaErrorInvalidAddressSpace:
    case cudaErrorInvalidPc:
    case cudaErrorExternalDevice:
    case cudaErrorECCUncorrectable:
    case cudaErrorNvlinkUncorrectable:
    case cudaErrorDevicesUnavailable:
    case cudaErrorContextIsDestroyed:
    case cudaErrorUnknown:
    case 226:  // cudaErrorContained, which CUDA 12.0 does not name
    case 721:  // cudaErrorTensorMemoryLeak, likewise
      return true;
    default:
      return false;
  }
}

}  // namespace sluice::cuda
