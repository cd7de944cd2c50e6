// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "operations/elementwise/scatter_work.hpp"

#include <sluice/operations/operation.hpp>

// The implementations of updates of a tensor with elements; see `operation_functions`.

namespace sluice::host {
/// Makes updates in row-major order.
void compute_scatter(operations::scatter_work work, const operations::scatter_addresses& addresses);
}  // namespace sluice::host

namespace sluice::cuda {
/// Loads the kernels.
void prepare_scatter(lane_libraries& libraries);
/// Enqueues one kernel for the copy and one for the updates.
void enqueue_scatter(lane_libraries& libraries, const operations::scatter_work& work,
                     const operations::scatter_addresses& addresses);
}  // namespace sluice::cuda
