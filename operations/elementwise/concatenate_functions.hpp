// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "operations/elementwise/concatenate_call.hpp"

#include <sluice/operations/lane_libraries.hpp>

// The implementations of concatenations with at least one row; see `operation_functions`.

namespace sluice::host {
void compute_concatenate(const operations::concatenate_call& call,
                         const operations::concatenate_addresses& addresses);
}  // namespace sluice::host

namespace sluice::cuda {
/// Loads the kernels.
void prepare_concatenate(lane_libraries& libraries);
/// Enqueues one kernel.
void enqueue_concatenate(lane_libraries& libraries, const operations::concatenate_call& call,
                         const operations::concatenate_addresses& addresses);
}  // namespace sluice::cuda
