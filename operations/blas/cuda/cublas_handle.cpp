// SPDX-License-Identifier: Apache-2.0
#include "operations/blas/cuda/cublas_handle.hpp"

#include "operations/blas/cuda/check_cublas.hpp"

namespace sluice::cuda {

cublas_handle::cublas_handle(device_runtime& runtime, stream_ref stream)
    : workspace_(runtime, stream, "cublas workspace"), context_(runtime.device()) {
  const detail::library_call call(runtime.device().id());
  const current_device_scope current(runtime.device());
  workspace_.require(recommended_workspace(runtime.device().info().compute_capability));
  context_.bind(stream, workspace_);
}

}  // namespace sluice::cuda
