// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "operations/elementwise/cumulative_call.hpp"

#include <sluice/operations/operation.hpp>

// The implementations of cumulative sums and products of at least one element; see
// `operation_functions`.

namespace sluice::host {
/// Computes each row in order.
void compute_cumulative(const operations::cumulative_call& call, const void* x, void* y);
}  // namespace sluice::host

namespace sluice::cuda {
/// Loads the kernels.
void prepare_cumulative(lane_libraries& libraries);
/// Enqueues one kernel, or three if rows have several parts.
void enqueue_cumulative(lane_libraries& libraries, const operations::cumulative_call& call,
                        const void* x, void* y, void* workspace);
}  // namespace sluice::cuda
