// SPDX-License-Identifier: Apache-2.0
// Functions of the CUDA driver that have no counterpart in the CUDA runtime, or only one that
// creates contexts on other GPUs.
#pragma once

#include <cuda.h>

#include <cstddef>

namespace sluice::cuda {

/// The function `name` of the driver in the version of CUDA `version` (12000 is 12.0), or null. If
/// built with CUDA 12.0 to 12.4, in the version of that toolkit. Found at run time, because a
/// machine without a GPU has no driver library to link. Thread-safe.
[[nodiscard]] void* find_driver_function(const char* name, unsigned version = 12000) noexcept;

/// The driver's functions, found once. Null: the driver does not have it.
struct driver_functions {
  decltype(&::cuDeviceGet) device_get = nullptr;
  decltype(&::cuDevicePrimaryCtxRetain) primary_context_retain = nullptr;
  decltype(&::cuDevicePrimaryCtxRelease) primary_context_release = nullptr;
  decltype(&::cuCtxGetCurrent) context_get_current = nullptr;
  decltype(&::cuCtxSetCurrent) context_set_current = nullptr;
  decltype(&::cuThreadExchangeStreamCaptureMode) exchange_capture_mode = nullptr;
  // Callers check these.
  decltype(&::cuStreamWaitValue32) stream_wait_value = nullptr;
  decltype(&::cuStreamWriteValue32) stream_write_value = nullptr;
  decltype(&::cuGraphKernelNodeGetParams) graph_kernel_params = nullptr;
  decltype(&::cuGraphKernelNodeSetParams) graph_set_node_params = nullptr;
  decltype(&::cuGraphExecKernelNodeSetParams) graph_set_kernel_params = nullptr;
  /// `cuFuncGetParamInfo`, which CUDA has since 12.4.
  CUresult(CUDAAPI* function_param_info)(CUfunction function, std::size_t number,
                                         std::size_t* offset, std::size_t* bytes) = nullptr;

  /// Whether all other functions exist. True for every device that has been opened.
  [[nodiscard]] bool complete() const noexcept {
    return device_get && primary_context_retain && primary_context_release && context_get_current &&
           context_set_current && exchange_capture_mode;
  }
};
[[nodiscard]] const driver_functions& driver() noexcept;
/// Replaces the functions and returns the previous ones. For tests that count calls. No other
/// thread may be using a GPU.
driver_functions exchange_driver(const driver_functions& functions) noexcept;

}  // namespace sluice::cuda
