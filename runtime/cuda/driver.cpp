// SPDX-License-Identifier: Apache-2.0
#include "runtime/cuda/driver.hpp"

#include <cuda_runtime_api.h>

#include <utility>

namespace sluice::cuda {
namespace {

template <class Function>
void look_for(Function*& function, const char* name, unsigned version = 12000) noexcept {
  function = reinterpret_cast<Function*>(find_driver_function(name, version));
}

}  // namespace

void* find_driver_function(const char* name, [[maybe_unused]] unsigned version) noexcept {
  void* function = nullptr;
  cudaDriverEntryPointQueryResult result{};
#if CUDART_VERSION >= 12050
  const auto status =
      cudaGetDriverEntryPointByVersion(name, &function, version, cudaEnableDefault, &result);
#else
  const auto status = cudaGetDriverEntryPoint(name, &found, cudaEnableDefault, &result);
#endif
  if (status == cudaSuccess && result == cudaDriverEntryPointSuccess) return function;
  (void)cudaGetLastError();
  return nullptr;
}

namespace {

driver_functions& all_functions() noexcept {
  static driver_functions functions = [] {
    driver_functions f;
    look_for(f.device_get, "cuDeviceGet");
    look_for(f.primary_context_retain, "cuDevicePrimaryCtxRetain");
    look_for(f.primary_context_release, "cuDevicePrimaryCtxRelease");
    look_for(f.context_get_current, "cuCtxGetCurrent");
    look_for(f.context_set_current, "cuCtxSetCurrent");
    look_for(f.exchange_capture_mode, "cuThreadExchangeStreamCaptureMode");
    look_for(f.stream_wait_value, "cuStreamWaitValue32");
    look_for(f.stream_write_value, "cuStreamWriteValue32");
    look_for(f.graph_kernel_params, "cuGraphKernelNodeGetParams");
    look_for(f.graph_set_node_params, "cuGraphKernelNodeSetParams");
    look_for(f.graph_set_kernel_params, "cuGraphExecKernelNodeSetParams");
    look_for(f.function_param_info, "cuFuncGetParamInfo", 12040);
    return f;
  }();
  return functions;
}

}  // namespace

const driver_functions& driver() noexcept {
  return all_functions();
}

driver_functions exchange_driver(const driver_functions& functions) noexcept {
  return std::exchange(all_functions(), functions);
}

}  // namespace sluice::cuda
