// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "operations/dnn/rotary_call.hpp"

#include <sluice/operations/operation.hpp>

// The implementations of rotary embeddings with at least one element; see `operation_functions`.

namespace sluice::host {
/// Computes row by row.
void compute_rotary(const operations::rotary_call& call,
                    const operations::rotary_addresses& addresses);
}  // namespace sluice::host

namespace sluice::cuda {
/// Loads the kernels.
void prepare_rotary(lane_libraries& libraries);
/// Enqueues one kernel.
void enqueue_rotary(lane_libraries& libraries, const operations::rotary_call& call,
                    const operations::rotary_addresses& addresses);
}  // namespace sluice::cuda
