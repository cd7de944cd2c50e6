// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sluice/runtime/device.hpp>

namespace sluice::operations {

/// Lets the calling thread use the context in which a device captures streams, where it has one,
/// for the capture and for the libraries and plans of what is captured. Scopes do not nest.
///
/// No kernel may run in that context: on an H200 with the driver 580.159, some of cuFFT's then
/// accessed illegal addresses while other processes used the GPU.
class capture_scope {
 public:
  explicit capture_scope(device& captured) noexcept
      : device_(captured), is_separate_(captured.enter_capture()) {
    is_open_ = true;
  }
  capture_scope(const capture_scope&) = delete;
  capture_scope& operator=(const capture_scope&) = delete;
  ~capture_scope() {
    is_open_ = false;
    if (is_separate_) device_.leave_capture();
  }

  /// Whether captures neither disturb `cudaDeviceSynchronize` in other threads nor are disturbed.
  [[nodiscard]] bool is_separate() const noexcept { return is_separate_; }
  /// Whether the calling thread is in a scope. It makes nothing then that runs: the libraries of
  /// the lane have loaded the kernels.
  [[nodiscard]] static bool is_open() noexcept { return is_open_; }

 private:
  static inline thread_local bool is_open_ = false;

  device& device_;
  bool is_separate_;
};

}  // namespace sluice::operations
