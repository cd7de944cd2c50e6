// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "operations/blas/cuda/cublas_context.hpp"

#include <sluice/runtime/device_runtime.hpp>
#include <sluice/runtime/stream.hpp>

#include <optional>

namespace sluice::cuda {

/// The kernels of small products of each type, so that the first request does not pay for them:
/// cuBLAS loads a kernel when it is launched for the first time, which may take 0.1 s.
///
/// cuBLASLt does not use them. A lane that has only fused products needs none.
class loaded_products {
 public:
  /// Loads them. In a `capture_scope` it does not.
  /// @throws error `library_failure`, `out_of_memory`, `over_budget`, `device_lost`,
  /// `shutting_down`
  loaded_products(device_runtime& runtime, stream_ref stream);

 private:
  void load(device_runtime& runtime);
  template <class T>
  void load(device_runtime& runtime, stream_ref stream);
  void load_mixed(device_runtime& runtime, stream_ref stream);

  // The destruction of a handle waits for the device, so it ends with the lane.
  std::optional<cublas_context> context_;
};

}  // namespace sluice::cuda
