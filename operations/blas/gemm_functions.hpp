// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "operations/blas/gemm_call.hpp"
#include "operations/blas/gemm_epilogue_call.hpp"

#include <sluice/operations/operation.hpp>

// The implementations of `gemm`; see `operation_functions`.

namespace sluice::host {
/// The version of OpenBLAS.
[[nodiscard]] std::string blas_version();
/// Makes OpenBLAS compute on the calling thread. Its threads are one pool for the process, and they
/// spin. Products are cut for the threads of the device instead.
void turn_off_openblas_threads();
/// Refuses sizes beyond OpenBLAS's.
/// @throws error `unsupported`
///@{
void check_products(const char* operation, const operations::gemm_call& call);
void check_gemm(const operations::gemm_call& call);
///@}
/// Computes with OpenBLAS.
void compute_gemm(const operations::gemm_call& call, const launch_of<gemm>& launch);
/// The same with an epilogue.
///@{
void check_gemm_epilogue(const operations::gemm_epilogue_call& call);
void compute_gemm_epilogue(const operations::gemm_epilogue_call& call,
                           const launch_of<gemm>& launch);
///@}
}  // namespace sluice::host

namespace sluice::cuda {
/// The version of cuBLAS.
[[nodiscard]] std::string blas_version();
/// Makes the cuBLAS handle of a lane.
void prepare_blas(lane_libraries& libraries);
/// Makes the table of a batch.
[[nodiscard]] std::shared_ptr<operation_launch> begin_gemm_batch(lane_libraries& libraries,
                                                                 std::size_t count);
/// Enqueues a batch as one call of cuBLAS.
void enqueue_gemm_batch(lane_libraries& libraries, const operations::gemm_call& call,
                        const batch_of<gemm>& batch);
/// Enqueues with cuBLAS.
void enqueue_gemm(lane_libraries& libraries, const operations::gemm_call& call,
                  const launch_of<gemm>& launch);
/// Makes the cuBLAS handle of a lane and loads the kernels of epilogues.
void prepare_gemm_epilogue(lane_libraries& libraries);
/// Finds an algorithm of cuBLASLt for the part of the epilogue that it computes.
[[nodiscard]] std::shared_ptr<const operation_plan> make_gemm_epilogue_plan(
    lane_libraries& libraries, const operations::gemm_epilogue_call& call);
/// Enqueues products with cuBLASLt or cuBLAS, and the rest of the epilogue.
void enqueue_gemm_epilogue(lane_libraries& libraries, const operations::gemm_epilogue_call& call,
                           const launch_of<gemm>& launch);
}  // namespace sluice::cuda
