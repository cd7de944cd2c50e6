// SPDX-License-Identifier: Apache-2.0
#include "operations/blas/cuda/mixed_products.hpp"

#include "operations/blas/cuda/check_cublas.hpp"
#include "operations/blas/cuda/cublas_functions.hpp"

#include <cstdint>

namespace sluice::cuda {
namespace {

using operations::gemm_call;

cudaDataType type_of(element_type type) noexcept {
  switch (type) {
    case element_type::f16:
      return CUDA_R_16F;
    case element_type::bf16:
      return CUDA_R_16BF;
    default:
      return CUDA_R_32F;
  }
}
cublasComputeType_t computation(const gemm_call& call) noexcept {
  return call.may_use_tf32 ? CUBLAS_COMPUTE_32F_FAST_TF32 : CUBLAS_COMPUTE_32F;
}

/// The handle takes alpha and beta from device memory.
class device_number_scope {
 public:
  explicit device_number_scope(cublasHandle_t handle) : handle_(handle) {
    check_cublas(cublasSetPointerMode(handle_, CUBLAS_POINTER_MODE_DEVICE), "cublasSetPointerMode");
  }
  device_number_scope(const device_number_scope&) = delete;
  device_number_scope& operator=(const device_number_scope&) = delete;
  ~device_number_scope() { (void)cublasSetPointerMode(handle_, CUBLAS_POINTER_MODE_HOST); }

 private:
  cublasHandle_t handle_;
};

/// Enqueues the products of a call with alpha and beta where the handle takes them from.
void multiply(cublasHandle_t handle, const gemm_call& call, const void* first, const void* second,
              void* c, const float* alpha, const float* beta) {
  const auto factors = type_of(call.type);
  if (call.count == 1) {
    return check_cublas(
        cublasGemmEx_64(handle, cublas_operation(call.first), cublas_operation(call.second), call.m,
                        call.n, call.k, alpha, first, factors, call.first.leading, second, factors,
                        call.second.leading, beta, c, type_of(call.c_type), call.c.leading,
                        computation(call), CUBLAS_GEMM_DEFAULT),
        "cublasGemmEx");
  }
  check_cublas(
      cublasGemmStridedBatchedEx_64(
          handle, cublas_operation(call.first), cublas_operation(call.second), call.m, call.n,
          call.k, alpha, first, factors, call.first.leading, call.first.distance, second, factors,
          call.second.leading, call.second.distance, beta, c, type_of(call.c_type), call.c.leading,
          call.c.distance, call.count, computation(call), CUBLAS_GEMM_DEFAULT),
      "cublasGemmStridedBatchedEx");
}

}  // namespace

bool is_mixed(const gemm_call& call) noexcept {
  return call.is_16_bit() || call.may_use_tf32;
}

void multiply_mixed(cublasHandle_t handle, const gemm_call& call, const void* first,
                    const void* second, void* c) {
  const auto alpha = static_cast<float>(call.alpha.real());
  const auto beta = static_cast<float>(call.beta.real());
  multiply(handle, call, first, second, c, &alpha, &beta);
}

void multiply_mixed_by_device_numbers(cublasHandle_t handle, const gemm_call& call,
                                      const void* first, const void* second, void* c,
                                      const float* numbers) {
  const device_number_scope scope(handle);
  multiply(handle, call, first, second, c, numbers, numbers + 1);
}

void multiply_mixed_batch(cublasHandle_t handle, const gemm_call& call, void** table,
                          std::int64_t count) {
  const auto alpha = static_cast<float>(call.alpha.real());
  const auto beta = static_cast<float>(call.beta.real());
  const auto factors = type_of(call.type);
  check_cublas(cublasGemmBatchedEx_64(
                   handle, cublas_operation(call.first), cublas_operation(call.second), call.m,
                   call.n, call.k, &alpha, table, factors, call.first.leading, table + count,
                   factors, call.second.leading, &beta, table + 2 * count, type_of(call.c_type),
                   call.c.leading, count, computation(call), CUBLAS_GEMM_DEFAULT),
               "cublasGemmBatchedEx");
}

bool multiply_integers(cublasHandle_t handle, const gemm_call& call, const void* first,
                       const void* second, std::int32_t* c) {
  // What cuBLAS's manual requires of integers (cublasGemmEx).
  constexpr std::int64_t alignment = 4;
  const auto address_bits = reinterpret_cast<std::uintptr_t>(first) |
                            reinterpret_cast<std::uintptr_t>(second) |
                            reinterpret_cast<std::uintptr_t>(c);
  const auto steps = call.first.leading | call.first.distance | call.second.leading |
                     call.second.distance | call.c.leading | call.c.distance;
  if (call.type != element_type::i8 || address_bits % alignment != 0 || steps % alignment != 0) {
    return false;
  }
  const std::int32_t alpha = 1;
  const std::int32_t beta = call.beta == 0.0 ? 0 : 1;
  const auto status = cublasGemmStridedBatchedEx_64(
      handle, cublas_operation(call.first), cublas_operation(call.second), call.m, call.n, call.k,
      &alpha, first, CUDA_R_8I, call.first.leading, call.first.distance, second, CUDA_R_8I,
      call.second.leading, call.second.distance, &beta, c, CUDA_R_32I, call.c.leading,
      call.c.distance, call.count, CUBLAS_COMPUTE_32I, CUBLAS_GEMM_DEFAULT);
  if (status == CUBLAS_STATUS_NOT_SUPPORTED) return false;
  check_cublas(status, "cublasGemmStridedBatchedEx");
  return true;
}

}  // namespace sluice::cuda
