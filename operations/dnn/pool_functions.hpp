// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "operations/dnn/pool_call.hpp"

#include <sluice/operations/operation.hpp>

// The implementations of pools with at least one result; see `operation_functions`.

namespace sluice::host {
/// Computes windows line by line.
void compute_pool(const operations::pool_call& call, const void* x, void* y);
}  // namespace sluice::host

namespace sluice::cuda {
/// Loads the kernels.
void prepare_pool(lane_libraries& libraries);
/// Enqueues one kernel.
void enqueue_pool(lane_libraries& libraries, const operations::pool_call& call, const void* x,
                  void* y);
}  // namespace sluice::cuda
