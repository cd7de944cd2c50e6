// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "operations/dnn/roi_call.hpp"

#include <sluice/operations/operation.hpp>

// The implementations of `roi_align` with at least one result; see `operation_functions`.

namespace sluice::host {
/// Computes bin after bin.
void compute_roi(const operations::roi_call& call, const operations::map_addresses& addresses);
}  // namespace sluice::host

namespace sluice::cuda {
/// Loads the kernels.
void prepare_roi(lane_libraries& libraries);
/// Enqueues one kernel.
void enqueue_roi(lane_libraries& libraries, const operations::roi_call& call,
                 const operations::map_addresses& addresses);
}  // namespace sluice::cuda
