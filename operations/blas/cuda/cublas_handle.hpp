// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "operations/workspace.hpp"

#include <sluice/runtime/device_runtime.hpp>
#include <sluice/runtime/stream.hpp>

#include <cublasLt.h>
#include <cublas_v2.h>

#include <cstddef>

namespace sluice::cuda {

/// The size of a workspace that cuBLAS's manual recommends (cublasSetWorkspace), in bytes.
[[nodiscard]] std::size_t recommended_workspace(int compute_capability) noexcept;

/// A cuBLAS handle bound to one stream, with a workspace of its own.
///
/// It computes f32 in f32, never in TF32, and gives the same bits for the same call. Constructing
/// it loads the kernels of small products, so that the first request does not pay for it. In a
/// `capture_scope` it does not.
class cublas_handle {
 public:
  /// @throws error `library_failure`, `out_of_memory`, `over_budget`, `device_lost`,
  /// `shutting_down`
  cublas_handle(device_runtime& runtime, stream_ref stream);
  cublas_handle(const cublas_handle&) = delete;
  cublas_handle& operator=(const cublas_handle&) = delete;
  ~cublas_handle();

  /// The handle. Valid as long as this object.
  [[nodiscard]] cublasHandle_t get() const noexcept { return handle_; }
  /// The library context of cuBLASLt in this handle.
  [[nodiscard]] cublasLtHandle_t get_lt() const noexcept {
    return reinterpret_cast<cublasLtHandle_t>(handle_);
  }

 private:
  void bind(stream_ref stream, const operations::workspace& scratch);
  void warm_up(device_runtime& runtime, std::size_t workspace_bytes);
  template <class T>
  void warm_up(device_runtime& runtime, stream_ref stream);
  void warm_up_mixed(device_runtime& runtime, stream_ref stream);
  void destroy() noexcept;

  device& device_;
  operations::workspace workspace_;
  cublasHandle_t handle_ = nullptr;
};

}  // namespace sluice::cuda
