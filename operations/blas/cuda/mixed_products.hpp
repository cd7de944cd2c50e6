// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "operations/blas/gemm_call.hpp"

#include <cublas_v2.h>

// Products that are not computed in the type of their factors: of f16 and bf16 in f32, and of f32
// as TF32.
namespace sluice::cuda {

/// Whether a product is one of them.
[[nodiscard]] bool is_mixed(const operations::gemm_call& call) noexcept;
/// Enqueues the products of a call.
/// @throws error `library_failure`
void multiply_mixed(cublasHandle_t handle, const operations::gemm_call& call, const void* first,
                    const void* second, void* c);
/// Enqueues the products of a batch. The table holds the addresses of all first factors, then those
/// of the second ones and of the results.
/// @throws error `library_failure`
void multiply_mixed_batch(cublasHandle_t handle, const operations::gemm_call& call, void** table,
                          std::int64_t count);

}  // namespace sluice::cuda
