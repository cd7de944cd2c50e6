// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "operations/blas/gemm_call.hpp"

#include <cublas_v2.h>

#include <cstdint>

// Products that are not computed in the type of their factors: of f16 and bf16 in f32, of f32 as
// TF32, and of i8 in i32.
namespace sluice::cuda {

/// Whether a product is one of them.
[[nodiscard]] bool is_mixed(const operations::gemm_call& call) noexcept;
/// Enqueues the products of a call.
/// @throws error `library_failure`
void multiply_mixed(cublasHandle_t handle, const operations::gemm_call& call, const void* first,
                    const void* second, void* c);
/// Likewise of f16 or bf16, with `numbers` in device memory, alpha and beta, instead of those of
/// the call.
/// @throws error `library_failure`
void multiply_mixed_by_device_numbers(cublasHandle_t handle, const operations::gemm_call& call,
                                      const void* first, const void* second, void* c,
                                      const float* numbers);
/// Enqueues the products of a batch. The table holds the addresses of all first factors, then those
/// of the second ones and of the results.
/// @throws error `library_failure`
void multiply_mixed_batch(cublasHandle_t handle, const operations::gemm_call& call, void** table,
                          std::int64_t count);
/// Enqueues the products of a call of integers.
/// @return whether cuBLAS takes them; if not, nothing is enqueued
/// @throws error `library_failure`
[[nodiscard]] bool multiply_integers(cublasHandle_t handle, const operations::gemm_call& call,
                                     const void* first, const void* second, std::int32_t* c);

}  // namespace sluice::cuda
