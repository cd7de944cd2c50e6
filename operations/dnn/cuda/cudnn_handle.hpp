// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sluice/runtime/device_runtime.hpp>
#include <sluice/runtime/stream.hpp>

#include <cudnn.h>

namespace sluice::cuda {

/// A cuDNN handle bound to one stream. Only one thread may use it at a time.
class cudnn_handle {
 public:
  /// @throws error `library_failure`, `device_lost`
  cudnn_handle(device_runtime& runtime, stream_ref stream);
  cudnn_handle(const cudnn_handle&) = delete;
  cudnn_handle& operator=(const cudnn_handle&) = delete;
  ~cudnn_handle();

  /// The handle. Valid as long as this object.
  [[nodiscard]] cudnnHandle_t get() const noexcept { return handle_; }

 private:
  void destroy() noexcept;

  device& device_;
  cudnnHandle_t handle_ = nullptr;
};

/// The handle with which a lane launches.
struct launching_cudnn : cudnn_handle {
  using cudnn_handle::cudnn_handle;
};
/// The handle with which plans for a lane are made, on another thread than the launches.
struct planning_cudnn : cudnn_handle {
  using cudnn_handle::cudnn_handle;
};

}  // namespace sluice::cuda
