// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "runtime/cuda/driver.hpp"

#include <memory>

namespace sluice::cuda {

/// A green context of a GPU with all its multiprocessors. It shares memory, events and kernels with
/// the primary context, but `cudaDeviceSynchronize` in the primary context does not concern its
/// streams. While it exists, `cudaDeviceReset` returns an error.
class green_context {
 public:
  /// Null if the driver or the toolkit is older than CUDA 12.4, or if the driver refuses.
  [[nodiscard]] static std::unique_ptr<green_context> create(int ordinal) noexcept;

  green_context(const green_context&) = delete;
  green_context& operator=(const green_context&) = delete;
  ~green_context();

  [[nodiscard]] CUcontext get() const noexcept { return context_; }

 private:
  green_context() noexcept = default;

  void* green_ = nullptr;  // a CUgreenCtx
  CUcontext context_ = nullptr;
};

}  // namespace sluice::cuda
