// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "operations/dnn/indexed_pool_call.hpp"

#include <sluice/operations/operation.hpp>

// The implementations of maxima with indices, of at least one window; see `operation_functions`.

namespace sluice::host {
/// Computes lines of windows, or one window after the other.
void compute_indexed_pool(const operations::indexed_pool_call& call,
                          const operations::indexed_pool_addresses& addresses);
}  // namespace sluice::host

namespace sluice::cuda {
/// Loads the kernels.
void prepare_indexed_pool(lane_libraries& libraries);
/// Enqueues one kernel.
void enqueue_indexed_pool(lane_libraries& libraries, const operations::indexed_pool_call& call,
                          const operations::indexed_pool_addresses& addresses);
}  // namespace sluice::cuda
