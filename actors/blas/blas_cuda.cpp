// SPDX-License-Identifier: Apache-2.0
#include "actors/blas/blas_cuda.hpp"

#include "actors/blas/column_major.hpp"
#include "actors/blas/cuda/check_cublas.hpp"
#include "actors/workspace.hpp"

#include <sluice/runtime/error.hpp>

#include <cublas_v2.h>

#include <cstddef>
#include <cstdio>
#include <string>

namespace sluice::cuda {

namespace {

using actors::gemm_call;
using actors::gemm_shape;

cublasOperation_t cublas_operation(transpose t) noexcept {
  return t == transpose::yes ? CUBLAS_OP_T : CUBLAS_OP_N;
}

/// The size that cuBLAS's manual recommends (cublasSetWorkspace).
std::size_t recommended_workspace(int compute_capability) noexcept {
  constexpr std::size_t mebibyte = std::size_t{1} << 20;
  return (compute_capability >= 90 ? 32 : 4) * mebibyte;
}

// The interface with 64-bit dimensions takes every shape; for small ones it is the same kernel.

void multiply(cublasHandle_t handle, const gemm_call<float>& call) {
  const gemm_shape& s = call.shape;
  check_cublas(cublasSgemm_64(handle, cublas_operation(s.transpose_a),
                              cublas_operation(s.transpose_b), s.m, s.n, s.k, &call.alpha, call.a,
                              s.lda, call.b, s.ldb, &call.beta, call.c, s.ldc),
               "cublasSgemm");
}

void multiply(cublasHandle_t handle, const gemm_call<double>& call) {
  const gemm_shape& s = call.shape;
  check_cublas(cublasDgemm_64(handle, cublas_operation(s.transpose_a),
                              cublas_operation(s.transpose_b), s.m, s.n, s.k, &call.alpha, call.a,
                              s.lda, call.b, s.ldb, &call.beta, call.c, s.ldc),
               "cublasDgemm");
}

// C = beta·C + 0·C, in place. A matrix with factor 0 is not read.

void scale(cublasHandle_t handle, const gemm_call<float>& call) {
  const gemm_shape& s = call.shape;
  const float zero = 0;
  check_cublas(cublasSgeam_64(handle, CUBLAS_OP_N, CUBLAS_OP_N, s.m, s.n, &call.beta, call.c, s.ldc,
                              &zero, call.c, s.ldc, call.c, s.ldc),
               "cublasSgeam");
}

void scale(cublasHandle_t handle, const gemm_call<double>& call) {
  const gemm_shape& s = call.shape;
  const double zero = 0;
  check_cublas(cublasDgeam_64(handle, CUBLAS_OP_N, CUBLAS_OP_N, s.m, s.n, &call.beta, call.c, s.ldc,
                              &zero, call.c, s.ldc, call.c, s.ldc),
               "cublasDgeam");
}

class cublas final : public actors::blas_library {
 public:
  cublas(device_runtime& runtime, stream_ref stream)
      : device_(runtime.device()), workspace_(runtime, stream, "cublas workspace") {
    const detail::library_call call(device_.id());
    device_.require_usable();
    const current_device_scope current(device_);
    workspace_.require(recommended_workspace(device_.info().compute_capability));
    check_cublas(cublasCreate(&handle_), "cublasCreate");
    try {
      // Setting the stream resets the workspace, so it comes first.
      check_cublas(cublasSetStream(handle_, reinterpret_cast<cudaStream_t>(stream.native())),
                   "cublasSetStream");
      check_cublas(cublasSetWorkspace(handle_, workspace_.address(), workspace_.bytes()),
                   "cublasSetWorkspace");
      check_cublas(cublasSetPointerMode(handle_, CUBLAS_POINTER_MODE_HOST), "cublasSetPointerMode");
      // Without CUBLAS_TF32_TENSOR_OP_MATH no f32 product is computed in TF32.
      check_cublas(cublasSetMathMode(handle_, CUBLAS_DEFAULT_MATH), "cublasSetMathMode");
      check_cublas(cublasSetAtomicsMode(handle_, CUBLAS_ATOMICS_NOT_ALLOWED),
                   "cublasSetAtomicsMode");
      warm_up<float>(runtime, stream);
      warm_up<double>(runtime, stream);
    } catch (...) {
      destroy();
      throw;
    }
  }

  ~cublas() override {
    const detail::library_call call(device_.id());
    const current_device_scope current(device_);
    destroy();
  }

  [[nodiscard]] std::string_view name() const noexcept override { return "cuBLAS"; }

  [[nodiscard]] std::string version() const override {
    const auto property = [](libraryPropertyType type) {
      int value = 0;
      check_cublas(cublasGetProperty(type, &value), "cublasGetProperty");
      return std::to_string(value);
    };
    return property(MAJOR_VERSION) + '.' + property(MINOR_VERSION) + '.' + property(PATCH_LEVEL);
  }

  void gemm(const gemm_call<float>& call) override { enqueue(call); }
  void gemm(const gemm_call<double>& call) override { enqueue(call); }

 private:
  template <class T>
  void enqueue(const gemm_call<T>& given) {
    const gemm_call<T> call = actors::as_column_major(given);
    if (call.shape.m == 0 || call.shape.n == 0) return;
    const bool scales_only = call.shape.k == 0 || call.alpha == T(0);
    if (scales_only && call.beta == T(1)) return;
    const current_device_scope current(device_);
    if (scales_only) {
      scale(handle_, call);
    } else {
      multiply(handle_, call);
    }
  }

  /// Launches one small product and one scaling, so that the first request does not pay for the
  /// loading of the library's kernels.
  template <class T>
  void warm_up(device_runtime& runtime, stream_ref stream) {
    constexpr std::int64_t order = 64;
    constexpr std::size_t elements = order * order;
    actors::workspace operands(runtime, stream, "cublas warm-up");
    operands.require(3 * elements * sizeof(T));
    T* const first = static_cast<T*>(operands.address());
    const T zero = 0;
    device_.fill(first, &zero, sizeof(T), 3 * elements, stream.native());
    gemm_call<T> call;
    call.shape = {.layout = layout::column_major, .m = order, .n = order, .k = order};
    call.shape = actors::packed(call.shape);
    call.a = first;
    call.b = first + elements;
    call.c = first + 2 * elements;
    enqueue(call);
    call.alpha = 0;
    enqueue(call);
  }

  void destroy() noexcept {
    // After a fault cuBLAS's own teardown can abort the process; the handle is lost with the
    // device.
    if (handle_ == nullptr || device_.lost()) return;
    if (const cublasStatus_t status = cublasDestroy(handle_); status != CUBLAS_STATUS_SUCCESS) {
      std::fprintf(stderr, "sluice: cublasDestroy: %s\n", cublasGetStatusString(status));
    }
    handle_ = nullptr;
  }

  device& device_;
  actors::workspace workspace_;
  cublasHandle_t handle_ = nullptr;
};

}  // namespace

std::unique_ptr<actors::blas_library> make_blas_library(device_runtime& runtime,
                                                        stream_ref stream) {
  return std::make_unique<cublas>(runtime, stream);
}

}  // namespace sluice::cuda
