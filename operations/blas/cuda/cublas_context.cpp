// SPDX-License-Identifier: Apache-2.0
#include "operations/blas/cuda/cublas_context.hpp"

#include "operations/blas/cuda/check_cublas.hpp"
#include "operations/capture_lock.hpp"

#include <cstdio>

namespace sluice::cuda {

std::size_t recommended_workspace(int compute_capability) noexcept {
  constexpr std::size_t mebibyte = std::size_t{1} << 20;
  return (compute_capability >= 90 ? 32 : 4) * mebibyte;
}

cublas_context::cublas_context(device& device) : device_(device) {
  const detail::library_call call(device_.id());
  device_.require_usable();
  const current_device_scope current(device_);
  check_cublas(cublasCreate(&handle_), "cublasCreate");
  try {
    check_cublas(cublasSetPointerMode(handle_, CUBLAS_POINTER_MODE_HOST), "cublasSetPointerMode");
    // Without CUBLAS_TF32_TENSOR_OP_MATH no f32 product is computed in TF32 unless its call asks
    // for it. Sums of 16-bit products are added in f32 to the end.
    check_cublas(cublasSetMathMode(handle_, CUBLAS_MATH_DISALLOW_REDUCED_PRECISION_REDUCTION),
                 "cublasSetMathMode");
    check_cublas(cublasSetAtomicsMode(handle_, CUBLAS_ATOMICS_NOT_ALLOWED), "cublasSetAtomicsMode");
  } catch (...) {
    destroy();
    throw;
  }
}

cublas_context::~cublas_context() {
  const detail::library_call call(device_.id());
  const current_device_scope current(device_);
  destroy();
}

void cublas_context::bind(stream_ref stream, const operations::workspace& scratch) {
  // Setting the stream resets the workspace, so it comes first.
  check_cublas(cublasSetStream(handle_, reinterpret_cast<cudaStream_t>(stream.native())),
               "cublasSetStream");
  check_cublas(cublasSetWorkspace(handle_, scratch.address(), scratch.bytes()),
               "cublasSetWorkspace");
}

void cublas_context::destroy() noexcept {
  // After a fault cuBLAS's own teardown can abort the process; the handle is lost with the device.
  if (handle_ == nullptr || device_.lost()) return;
  const auto no_capture = operations::capture_lock();
  if (const cublasStatus_t status = cublasDestroy(handle_); status != CUBLAS_STATUS_SUCCESS) {
    std::fprintf(stderr, "sluice: cublasDestroy: %s\n", cublasGetStatusString(status));
  }
  handle_ = nullptr;
}

}  // namespace sluice::cuda
