// SPDX-License-Identifier: Apache-2.0
#include "operations/dnn/cuda/cudnn_handle.hpp"

#include "operations/capture_lock.hpp"
#include "operations/dnn/cuda/check_cudnn.hpp"
#include "runtime/cuda/check.hpp"
#include "runtime/seam.hpp"

#include <cstdio>

namespace sluice::cuda {

using operations::check_cudnn;

cudnn_handle::cudnn_handle(device_runtime& runtime, stream_ref stream) : device_(runtime.device()) {
  const detail::library_call call(device_.id());
  device_.require_usable();
  const current_device_scope current(device_);
  check_cudnn(cudnnCreate(&handle_), "cudnnCreate");
  try {
    check_cudnn(cudnnSetStream(handle_, reinterpret_cast<cudaStream_t>(stream.native())),
                "cudnnSetStream");
  } catch (...) {
    destroy();
    throw;
  }
}

cudnn_handle::~cudnn_handle() {
  const detail::library_call call(device_.id());
  const current_device_scope current(device_);
  destroy();
}

void cudnn_handle::destroy() noexcept {
  // After a fault the handle is lost with the device.
  if (handle_ == nullptr || device_.lost()) return;
  const auto no_capture = operations::capture_lock();
  if (const cudnnStatus_t status = cudnnDestroy(handle_); status != CUDNN_STATUS_SUCCESS) {
    std::fprintf(stderr, "sluice: cudnnDestroy: %s\n", cudnnGetErrorString(status));
  }
  handle_ = nullptr;
}

}  // namespace sluice::cuda
