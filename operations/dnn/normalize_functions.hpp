// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "operations/dnn/normalize_call.hpp"

#include <sluice/operations/operation.hpp>

// The implementations of normalizations with at least one element; see `operation_functions`.

namespace sluice::host {
/// Computes row by row.
void compute_normalize(const operations::normalize_call& call,
                       const operations::normalize_addresses& addresses);
}  // namespace sluice::host

namespace sluice::cuda {
/// Loads the kernels.
void prepare_normalize(lane_libraries& libraries);
/// Enqueues one kernel.
void enqueue_normalize(lane_libraries& libraries, const operations::normalize_call& call,
                       const operations::normalize_addresses& addresses);
}  // namespace sluice::cuda
