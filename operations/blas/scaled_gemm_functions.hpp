// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "operations/blas/scaled_gemm_call.hpp"

#include <sluice/operations/operation.hpp>

#include <memory>

// The implementations of `scaled_gemm`; see `operation_functions`.

namespace sluice::host {
/// Refuses sizes beyond OpenBLAS's.
/// @throws error `unsupported`
void check_scaled_gemm(const operations::scaled_gemm_call& call);
/// Computes in f32 with OpenBLAS.
void compute_scaled_gemm(const operations::scaled_gemm_call& call,
                         const launch_of<scaled_gemm>& launch);
}  // namespace sluice::host

namespace sluice::cuda {
/// Makes the cuBLAS handle of a lane and loads the kernels of conversions and epilogues.
void prepare_scaled_gemm(lane_libraries& libraries);
/// Finds an algorithm of cuBLASLt for numbers of 8 bits, or plans copies of 16 bits.
[[nodiscard]] std::shared_ptr<const operation_plan> make_scaled_gemm_plan(
    lane_libraries& libraries, const operations::scaled_gemm_call& call);
/// Enqueues the products and what the plan leaves of the epilogue.
void enqueue_scaled_gemm(lane_libraries& libraries, const operations::scaled_gemm_call& call,
                         const launch_of<scaled_gemm>& launch);
}  // namespace sluice::cuda
