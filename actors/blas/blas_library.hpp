// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "actors/blas/gemm_shape.hpp"

#include <sluice/export.hpp>
#include <sluice/runtime/device_runtime.hpp>
#include <sluice/runtime/stream.hpp>

#include <memory>
#include <string>
#include <string_view>

namespace sluice::actors {

/// One C = alpha·op(A)·op(B) + beta·C with operands in device memory. `shape` has passed
/// `validate`, and each operand has the elements that it says. C overlaps neither A nor B.
///
/// With beta == 0 C is not read. With alpha == 0 or k == 0 A and B are not read: C becomes beta·C.
/// With m == 0 or n == 0 nothing happens.
template <class T>
struct gemm_call {
  gemm_shape shape{};
  T alpha = 1;
  const T* a = nullptr;
  const T* b = nullptr;
  T beta = 0;
  T* c = nullptr;
};

/// A BLAS bound to one stream for life. Belongs to one lane; not thread-safe. The runtime and the
/// stream must outlive it.
///
/// Each operation is queued on the stream and returns: it does not synchronise and does not
/// allocate device memory. The same call on the same device gives the same bits.
class blas_library {
 public:
  blas_library() = default;
  blas_library(const blas_library&) = delete;
  blas_library& operator=(const blas_library&) = delete;
  virtual ~blas_library() = default;

  /// "cuBLAS", "OpenBLAS".
  [[nodiscard]] virtual std::string_view name() const noexcept = 0;
  /// The version in use, as the library tells it at run time.
  [[nodiscard]] virtual std::string version() const = 0;

  /// Queues `call`. f32 is computed in f32, never in TF32.
  /// @throws error `library_failure`, `device_lost`; `unsupported` for dimensions that the library
  ///   cannot take
  virtual void gemm(const gemm_call<float>& call) = 0;
  virtual void gemm(const gemm_call<double>& call) = 0;
};

/// The BLAS of the device of `runtime`, for `stream`: cuBLAS or OpenBLAS. Slow (creates handles,
/// allocates the workspace, loads the first kernels); does not wait for the device.
/// @throws error `library_failure`, `out_of_memory`, `over_budget`, `device_lost`, `shutting_down`;
///   `unsupported` when this build has no BLAS for the device
[[nodiscard]] SLUICE_EXPORT std::unique_ptr<blas_library> make_blas_library(device_runtime& runtime,
                                                                            stream_ref stream);

}  // namespace sluice::actors
