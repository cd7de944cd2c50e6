// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "operations/dnn/suppression_call.hpp"

#include <sluice/operations/operation.hpp>

// The implementations of `non_maximum_suppression`; see `operation_functions`.

namespace sluice::host {
/// Computes group after group.
void compute_suppression(const operations::suppression_call& call,
                         const operations::suppression_addresses& addresses);
}  // namespace sluice::host

namespace sluice::cuda {
/// Loads the kernels.
void prepare_suppression(lane_libraries& libraries);
/// Enqueues the kernels.
void enqueue_suppression(lane_libraries& libraries, const operations::suppression_call& call,
                         const operations::suppression_addresses& addresses);
}  // namespace sluice::cuda
