// SPDX-License-Identifier: Apache-2.0
// Functions of the CUDA driver that the CUDA runtime has no counterpart of, or only one that makes
// contexts on GPUs which nobody asked for.
#pragma once

#include <cuda.h>

namespace sluice::cuda {

/// The driver's function `name`, in the version of CUDA 12.0 (built with CUDA 12.0 to 12.4: of that
/// toolkit), or null where there is none. Asked for, not linked: a machine without a GPU has no
/// driver library. Thread-safe.
[[nodiscard]] void* find_driver_function(const char* name) noexcept;

/// Looked for once; null what the driver does not have.
struct driver_functions {
  decltype(&::cuDeviceGet) device_get = nullptr;
  decltype(&::cuDevicePrimaryCtxRetain) primary_context_retain = nullptr;
  decltype(&::cuDevicePrimaryCtxRelease) primary_context_release = nullptr;
  decltype(&::cuCtxGetCurrent) context_get_current = nullptr;
  decltype(&::cuCtxSetCurrent) context_set_current = nullptr;
  decltype(&::cuThreadExchangeStreamCaptureMode) exchange_capture_mode = nullptr;
  // Callers ask for these two.
  decltype(&::cuStreamWaitValue32) stream_wait_value = nullptr;
  decltype(&::cuStreamWriteValue32) stream_write_value = nullptr;

  /// Whether all others are there, as they are for every device that has been opened.
  [[nodiscard]] bool complete() const noexcept {
    return device_get && primary_context_retain && primary_context_release && context_get_current &&
           context_set_current && exchange_capture_mode;
  }
};
[[nodiscard]] const driver_functions& driver() noexcept;
/// For tests, which count calls: from now on `driver` answers `with`. Returns what it answered
/// before. No other thread may be using a GPU.
driver_functions exchange_driver(const driver_functions& with) noexcept;

}  // namespace sluice::cuda
