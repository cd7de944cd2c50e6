// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "operations/workspace.hpp"

#include <sluice/runtime/device.hpp>
#include <sluice/runtime/stream.hpp>

#include <cublas_v2.h>

#include <cstddef>

namespace sluice::cuda {

/// The size of a workspace that cuBLAS's manual recommends (cublasSetWorkspace), in bytes.
[[nodiscard]] std::size_t recommended_workspace(int compute_capability) noexcept;

/// A library context of cuBLAS. It computes f32 in f32, never in TF32, and gives the same bits for
/// the same call.
class cublas_context {
 public:
  /// One of the default stream, without a workspace.
  /// @throws error `library_failure`, `device_lost`
  explicit cublas_context(device& device);
  cublas_context(const cublas_context&) = delete;
  cublas_context& operator=(const cublas_context&) = delete;
  ~cublas_context();

  /// The handle. Valid as long as this object.
  [[nodiscard]] cublasHandle_t get() const noexcept { return handle_; }
  /// Has the calls that follow enqueue on a stream, and use memory of that stream.
  /// @throws error `library_failure`
  void bind(stream_ref stream, const operations::workspace& scratch);

 private:
  void destroy() noexcept;

  device& device_;
  cublasHandle_t handle_ = nullptr;
};

}  // namespace sluice::cuda
