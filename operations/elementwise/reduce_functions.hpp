// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "operations/elementwise/reduce_call.hpp"

#include <sluice/operations/operation.hpp>

// The implementations of reductions with at least one result; see `operation_functions`.

namespace sluice::host {
/// Reduces in order.
void compute_reduce(const operations::reduce_call& call, const void* x, void* y);
}  // namespace sluice::host

namespace sluice::cuda {
/// Loads the kernels.
void prepare_reduce(lane_libraries& libraries);
/// Enqueues one kernel, or two if results have several parts.
void enqueue_reduce(lane_libraries& libraries, const operations::reduce_call& call, const void* x,
                    void* y, void* workspace);
}  // namespace sluice::cuda
