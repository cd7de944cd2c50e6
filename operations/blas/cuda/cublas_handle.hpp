// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "operations/blas/cuda/cublas_context.hpp"
#include "operations/workspace.hpp"

#include <sluice/runtime/device_runtime.hpp>
#include <sluice/runtime/stream.hpp>

#include <cublasLt.h>
#include <cublas_v2.h>

namespace sluice::cuda {

/// A `cublas_context` bound to one stream, with a workspace of its own.
class cublas_handle {
 public:
  /// @throws error `library_failure`, `out_of_memory`, `over_budget`, `device_lost`,
  /// `shutting_down`
  cublas_handle(device_runtime& runtime, stream_ref stream);

  /// The handle. Valid as long as this object.
  [[nodiscard]] cublasHandle_t get() const noexcept { return context_.get(); }
  /// The library context of cuBLASLt in this handle.
  [[nodiscard]] cublasLtHandle_t get_lt() const noexcept {
    return reinterpret_cast<cublasLtHandle_t>(get());
  }

 private:
  operations::workspace workspace_;
  cublas_context context_;
};

}  // namespace sluice::cuda
